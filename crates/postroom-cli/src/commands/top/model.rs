//! What `top` knows, and what keys do to it. Nothing here touches a terminal or a store.

use std::time::Duration;

use postroom::lifecycle::State;
use postroom::store::{PauseRecord, Record, Stats};
use postroom::{MessageId, Topic};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::render::inert;

/// What one look at the store saw.
#[derive(Clone, Debug, Default)]
pub(super) struct Look {
    pub(super) stats: Stats,
    pub(super) pauses: Vec<PauseRecord>,
    /// Dead and failed messages, newest first.
    pub(super) troubles: Vec<Record>,
}

/// Messages per second, between the last two looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rates {
    pub(super) written: f64,
    pub(super) done: f64,
    pub(super) dead: f64,
}

/// What the outside world is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Quit,
    Look,
    Show(MessageId),
    Replay(MessageId),
    /// Without a topic it is the whole queue.
    Pause(Option<Topic>),
    Resume(Option<Topic>),
}

/// What the screen is for at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Watching,
    /// One message, scrolled down by so many lines.
    Reading {
        page: String,
        from: u16,
    },
    /// A question to be answered by a key.
    Asking {
        question: String,
        action: Action,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) place: String,
    interval: Duration,
    pub(super) color: bool,
    pub(super) look: Look,
    pub(super) rates: Option<Rates>,
    pub(super) mode: Mode,
    chosen: Option<MessageId>,
    /// What was done last.
    pub(super) said: Option<String>,
    /// Why the figures are old.
    pub(super) problem: Option<String>,
}

impl Model {
    pub(super) fn new(place: String, interval: Duration, color: bool) -> Self {
        Self {
            place,
            interval,
            color,
            look: Look::default(),
            rates: None,
            mode: Mode::Watching,
            chosen: None,
            said: None,
            problem: None,
        }
    }

    pub(super) fn interval(&self) -> Duration {
        self.interval
    }

    /// A fresh look, so long after the one before.
    pub(super) fn looked(&mut self, look: Look, after: Option<Duration>) {
        self.rates = after.filter(|after| !after.is_zero()).map(|after| {
            let (old, new) = (&self.look.stats, &look.stats);
            // Purges make totals smaller; that is no negative rate.
            let rate = |old: u64, new: u64| new.saturating_sub(old) as f64 / after.as_secs_f64();
            Rates {
                written: rate(total(old), total(new)),
                done: rate(old.done, new.done),
                dead: rate(old.dead, new.dead),
            }
        });
        self.look = look;
        self.problem = None;
    }

    pub(super) fn failed(&mut self, problem: String) {
        self.problem = Some(problem);
    }

    pub(super) fn say(&mut self, said: String) {
        self.said = Some(said);
    }

    pub(super) fn show(&mut self, page: String) {
        self.mode = Mode::Reading { page, from: 0 };
    }

    /// Where the chosen message is. It keeps its mark while others come and go.
    pub(super) fn place_of_choice(&self) -> Option<usize> {
        let troubles = &self.look.troubles;
        let found = troubles.iter().position(|record| Some(record.id) == self.chosen);
        found.or((!troubles.is_empty()).then_some(0))
    }

    fn choice(&self) -> Option<&Record> {
        self.place_of_choice().map(|place| &self.look.troubles[place])
    }

    /// What a key does.
    pub(super) fn press(&mut self, key: KeyEvent) -> Option<Action> {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Some(Action::Quit);
        }
        match std::mem::replace(&mut self.mode, Mode::Watching) {
            Mode::Watching => self.press_watching(key.code),
            Mode::Reading { page, from } => {
                self.press_reading(key.code, page, from);
                None
            }
            Mode::Asking { action, .. } => {
                let yes = matches!(key.code, KeyCode::Char('y' | 'Y'));
                self.said = (!yes).then(|| "Nothing was changed.".to_owned());
                yes.then_some(action)
            }
        }
    }

    fn press_watching(&mut self, key: KeyCode) -> Option<Action> {
        self.said = None;
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return Some(Action::Quit),
            KeyCode::Up | KeyCode::Char('k') => self.choose(-1),
            KeyCode::Down | KeyCode::Char('j') => self.choose(1),
            KeyCode::Enter => return self.choice().map(|record| Action::Show(record.id)),
            KeyCode::Char('r') => self.ask_replay(),
            KeyCode::Char('p') => {
                if let Some(topic) = self.choice().and_then(|it| Topic::new(&*it.topic).ok()) {
                    self.ask_pause(Some(topic));
                }
            }
            KeyCode::Char('P') => self.ask_pause(None),
            _ => {}
        }
        None
    }

    fn press_reading(&mut self, key: KeyCode, page: String, from: u16) {
        let last = u16::try_from(page.lines().count()).unwrap_or(u16::MAX).saturating_sub(1);
        let from = match key {
            KeyCode::Up | KeyCode::Char('k') => from.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => from.saturating_add(1).min(last),
            KeyCode::Char('q') | KeyCode::Esc | KeyCode::Enter => return,
            _ => from,
        };
        self.mode = Mode::Reading { page, from };
    }

    fn choose(&mut self, step: isize) {
        let Some(place) = self.place_of_choice() else { return };
        let last = self.look.troubles.len() - 1;
        let place = place.saturating_add_signed(step).min(last);
        self.chosen = Some(self.look.troubles[place].id);
    }

    fn ask(&mut self, question: String, action: Action) {
        self.mode = Mode::Asking { question, action };
    }

    fn ask_replay(&mut self) {
        match self.choice().map(|record| (record.id, record.state)) {
            Some((id, State::Dead)) => self.ask(format!("Replay {id}?"), Action::Replay(id)),
            Some(_) => self.say("Only dead messages are replayed.".to_owned()),
            None => {}
        }
    }

    fn ask_pause(&mut self, topic: Option<Topic>) {
        let name = topic.as_ref().map(Topic::as_str);
        let paused = self.look.pauses.iter().any(|pause| pause.topic.as_deref() == name);
        let what =
            name.map_or("the whole queue".to_owned(), |name| format!("topic {}", inert(name)));
        match paused {
            true => self.ask(format!("Resume {what}?"), Action::Resume(topic)),
            false => self.ask(format!("Pause {what}?"), Action::Pause(topic)),
        }
    }
}

fn total(stats: &Stats) -> u64 {
    stats.ready + stats.waiting + stats.leased + stats.done + stats.dead
}

#[cfg(test)]
pub(super) mod tests {
    use postroom::lifecycle::DeadReason;

    use super::*;
    use crate::render::tests::{now, record, seconds};

    pub(crate) fn id(last: char) -> MessageId {
        format!("019a8a00-0000-7000-8000-00000000000{last}").parse().expect("a UUID")
    }

    /// Two dead messages and a failed one, and a pause.
    pub(crate) fn look() -> Look {
        let dead = Record {
            id: id('3'),
            topic: "mail.sent".into(),
            state: State::Dead,
            reason: Some(DeadReason::Attempts),
            attempts: 10,
            last_error: Some("connection refused\nby \u{1b}[31mthe broker".into()),
            processed_at: Some(now()),
            ..record()
        };
        let failed = Record {
            id: id('2'),
            attempts: 2,
            next_attempt_at: Some(now().saturating_add(seconds(12))),
            last_error: Some("gateway timeout".into()),
            ..record()
        };
        let older = Record { id: id('1'), topic: "東京.".repeat(20), ..dead.clone() };
        let pause = PauseRecord {
            topic: Some("mail.sent".into()),
            since: now().saturating_sub(seconds(90)),
            by: Some("ann".into()),
            reason: Some("mail server full".into()),
        };
        let stats = Stats {
            ready: 1_234,
            waiting: 10,
            leased: 4,
            failed: 3,
            done: 120_034,
            dead: 7,
            oldest_ready: Some(seconds(125)),
        };
        Look { stats, pauses: vec![pause], troubles: vec![dead, failed, older] }
    }

    pub(crate) fn model() -> Model {
        let mut model =
            Model::new("outbox of sqlite:a.db, schema postroom".into(), seconds(1), false);
        model.looked(look(), None);
        model
    }

    pub(crate) fn press(model: &mut Model, code: KeyCode) -> Option<Action> {
        model.press(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn cli_1_keys_choose_show_and_quit() {
        let mut model = model();
        assert_eq!(press(&mut model, KeyCode::Enter), Some(Action::Show(id('3'))));
        assert_eq!(press(&mut model, KeyCode::Down), None);
        assert_eq!(press(&mut model, KeyCode::Enter), Some(Action::Show(id('2'))));
        press(&mut model, KeyCode::Down);
        press(&mut model, KeyCode::Down);
        assert_eq!(model.place_of_choice(), Some(2), "the last stays the last");
        press(&mut model, KeyCode::Up);
        model.show("a\nb\nc".into());
        assert_eq!(press(&mut model, KeyCode::Char('r')), None, "keys read now");
        press(&mut model, KeyCode::Down);
        assert_eq!(model.mode, Mode::Reading { page: "a\nb\nc".into(), from: 1 });
        assert_eq!(press(&mut model, KeyCode::Char('q')), None);
        assert_eq!(model.mode, Mode::Watching);
        assert_eq!(press(&mut model, KeyCode::Char('q')), Some(Action::Quit));
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        model.show("a".into());
        assert_eq!(model.press(interrupt), Some(Action::Quit), "from anywhere");
    }

    #[test]
    fn cli_1_the_choice_follows_its_message() {
        let mut model = model();
        press(&mut model, KeyCode::Down);
        let mut look = look();
        look.troubles.insert(0, Record { id: id('9'), ..record() });
        model.looked(look, None);
        assert_eq!(model.place_of_choice(), Some(2));
        model.looked(Look::default(), None);
        assert_eq!(model.place_of_choice(), None);
        for key in [KeyCode::Enter, KeyCode::Up, KeyCode::Char('r'), KeyCode::Char('p')] {
            assert_eq!(press(&mut model, key), None);
            assert_eq!(model.mode, Mode::Watching);
        }
    }

    #[test]
    fn cli_1_what_changes_something_asks_first() {
        let mut model = model();
        let mail = Topic::new("mail.sent").expect("legal");
        for (key, action) in [
            ('r', Action::Replay(id('3'))),
            ('p', Action::Resume(Some(mail))),
            ('P', Action::Pause(None)),
        ] {
            assert_eq!(press(&mut model, KeyCode::Char(key)), None);
            assert!(matches!(model.mode, Mode::Asking { .. }), "{key}");
            assert_eq!(press(&mut model, KeyCode::Enter), None, "anything but y is a no");
            assert_eq!(model.said.as_deref(), Some("Nothing was changed."));
            press(&mut model, KeyCode::Char(key));
            assert_eq!(press(&mut model, KeyCode::Char('y')), Some(action));
            assert_eq!(model.mode, Mode::Watching);
        }
        press(&mut model, KeyCode::Down);
        press(&mut model, KeyCode::Char('r'));
        assert_eq!(model.said.as_deref(), Some("Only dead messages are replayed."));
        press(&mut model, KeyCode::Char('p'));
        let order = Topic::new("order.placed").expect("legal");
        assert_eq!(press(&mut model, KeyCode::Char('y')), Some(Action::Pause(Some(order))));
    }

    #[test]
    fn cli_1_rates_are_differences_by_time() {
        let mut model = model();
        assert_eq!(model.rates, None);
        let mut next = look();
        next.stats.done += 100;
        next.stats.ready -= 50;
        model.looked(next.clone(), Some(seconds(2)));
        let rates = Rates { written: 25.0, done: 50.0, dead: 0.0 };
        assert_eq!(model.rates, Some(rates));
        next.stats.done = 0;
        model.looked(next, Some(seconds(2)));
        let rates = Rates { written: 0.0, done: 0.0, dead: 0.0 };
        assert_eq!(model.rates, Some(rates), "a purge is no negative rate");
    }
}
