//! `postroom top`: a live view of a queue.
//!
//! The model changes by looks at the store and by keys, the view draws it; here is what both need
//! from the outside world.

mod model;
mod view;

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use postroom::store::{AdminStore, List, Pause, Status};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEvent};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use self::model::{Action, Look, Model};
use super::Report;
use crate::args::Top;
use crate::failure::{Exit, Failure};
use crate::render::{Screen, detail};
use crate::store::{Access, Target};

/// A store that takes longer is said not to answer, so that keys still work.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many troubled messages are shown.
const TROUBLES: u32 = 50;

pub(super) async fn run(args: &Top, target: &Target, screen: &Screen) -> Result<Report, Failure> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        let what = "top needs a terminal";
        return Err(Failure::new(Exit::Invalid, what).next("use `postroom stats --json`"));
    }
    let store = target.open(Access::Existing).await?;
    let mut model = Model::new(target.to_string(), args.interval, screen.color);
    // What can not be read at all is told before the screen is taken.
    model.looked(Look::at(store.admin()).await?, None);
    let broken =
        |error: std::io::Error| Failure::new(Exit::Error, "top lost its terminal").why(&error);
    // This also gives the terminal back when there is a panic.
    let mut terminal = ratatui::try_init().map_err(broken)?;
    let watched = watch(&mut terminal, &mut model, store.admin()).await;
    ratatui::restore();
    store.close().await;
    watched.map_err(broken)?;
    Ok(Report::default())
}

async fn watch(
    terminal: &mut DefaultTerminal,
    model: &mut Model,
    store: &dyn AdminStore,
) -> std::io::Result<()> {
    let mut events = events();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut ticks = tokio::time::interval(model.interval());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = Instant::now();
    loop {
        terminal.draw(|frame| view::draw(frame, model, postroom::Timestamp::host_now()))?;
        let action = tokio::select! {
            _ = interrupt.recv() => Some(Action::Quit),
            _ = terminate.recv() => Some(Action::Quit),
            event = events.recv() => match event {
                None => Some(Action::Quit),
                Some(Event::Key(key)) => pressed(model, key),
                // A new size is drawn at the next turn.
                Some(_) => None,
            },
            _ = ticks.tick() => Some(Action::Look),
        };
        match action {
            None => {}
            Some(Action::Quit) => return Ok(()),
            Some(action) => {
                let changes = !matches!(action, Action::Look | Action::Show(_));
                perform(action, model, store, &mut last).await;
                if changes {
                    perform(Action::Look, model, store, &mut last).await;
                }
            }
        }
    }
}

fn pressed(model: &mut Model, key: KeyEvent) -> Option<Action> {
    if key.is_press() { model.press(key) } else { None }
}

/// Keys and sizes, read by a thread that waits for them until the process ends.
fn events() -> mpsc::UnboundedReceiver<Event> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.send(event).is_err() {
                return;
            }
        }
    });
    receiver
}

async fn perform(action: Action, model: &mut Model, store: &dyn AdminStore, last: &mut Instant) {
    let done = tokio::time::timeout(PATIENCE, act(action, model, store, last)).await;
    match done {
        Ok(Ok(())) => {}
        Ok(Err(error)) => model.failed(error.to_string()),
        Err(_) => model.failed("the database does not answer".to_owned()),
    }
}

async fn act(
    action: Action,
    model: &mut Model,
    store: &dyn AdminStore,
    last: &mut Instant,
) -> postroom::Result<()> {
    match action {
        Action::Quit => {}
        Action::Look => {
            let look = Look::at(store).await?;
            model.looked(look, Some(last.elapsed()));
            *last = Instant::now();
        }
        Action::Show(id) => match store.get(id).await? {
            Some(found) => {
                let now = postroom::Timestamp::host_now();
                let screen = Screen { width: None, color: false, now };
                model.show(detail::page(&found, false, &screen));
            }
            None => model.say("It is gone.".to_owned()),
        },
        Action::Replay(id) => {
            let changed = store.replay(&[id]).await?;
            model.say(match changed.refused.first() {
                None => format!("{id} replayed."),
                Some((_, why)) => format!("{id} not replayed: {}.", why.as_str()),
            });
        }
        Action::Pause(topic) => {
            let by = std::env::var("USER").ok();
            store.pause(&Pause { topic, by, reason: None }).await?;
            model.say("Paused.".to_owned());
        }
        Action::Resume(topic) => {
            store.resume(topic.as_ref()).await?;
            model.say("Resumed.".to_owned());
        }
    }
    Ok(())
}

impl Look {
    async fn at(store: &dyn AdminStore) -> postroom::Result<Self> {
        let of = |status| List { status: Some(status), limit: TROUBLES, ..List::default() };
        let mut troubles = store.list(&of(Status::Dead)).await?.records;
        troubles.extend(store.list(&of(Status::Failed)).await?.records);
        troubles.sort_by_key(|record| std::cmp::Reverse(record.id));
        troubles.truncate(TROUBLES as usize);
        Ok(Self { stats: store.stats().await?, pauses: store.pauses().await?, troubles })
    }
}
