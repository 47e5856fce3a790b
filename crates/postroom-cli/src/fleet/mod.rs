//! The stores of a configuration: those that stand in it, and those that are found by what it says.

mod keeper;
mod source;

use std::collections::HashSet;
use std::sync::Arc;

use postroom::fleet::{Discovery, Listed};
use postroom::store::BoxFuture;

pub(crate) use self::keeper::Keeper;
pub(crate) use self::source::Source;
use crate::failure::{Exit, Failure};
use crate::store::Target;

/// Where a store is.
pub(crate) type Place = Arc<Target>;

/// So many names are told of those that there are.
const NAMES_TOLD: usize = 10;

/// All stores of a configuration.
#[derive(Default)]
pub(crate) struct Roster {
    /// Those that stand in the file.
    pub(crate) fixed: Vec<Listed<Place>>,
    pub(crate) sources: Vec<Source>,
}

/// A store, and which source found it; none when it stands in the file.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) source: Option<String>,
    pub(crate) store: Listed<Place>,
}

/// A source that can not be asked.
#[derive(Debug)]
pub(crate) struct Unseen {
    pub(crate) source: String,
    pub(crate) failure: Failure,
}

impl Roster {
    /// The one that the command line names.
    pub(crate) fn of_one(store: Listed<Place>) -> Self {
        Self { fixed: vec![store], sources: Vec::new() }
    }

    /// Whether the configuration names no store and no way to find one.
    pub(crate) fn is_empty(&self) -> bool {
        self.fixed.is_empty() && self.sources.is_empty()
    }

    /// Looks everywhere. What is listed twice counts where it stands first.
    pub(crate) async fn look(&self) -> (Vec<Found>, Vec<Unseen>) {
        let fixed = self.fixed.iter().cloned();
        let mut found: Vec<_> = fixed.map(|store| Found { source: None, store }).collect();
        let mut unseen = Vec::new();
        for source in &self.sources {
            match source.look().await {
                Ok(list) => found.extend(list.into_iter().map(|store| {
                    let source = Some(source.name().to_owned());
                    Found { source, store }
                })),
                Err(failure) => unseen.push(Unseen { source: source.name().to_owned(), failure }),
            }
        }
        let mut seen = HashSet::new();
        found.retain(|one| seen.insert(one.store.id.clone()));
        (found, unseen)
    }

    /// Looks everywhere for a fleet that is going to start, and every source has to answer.
    pub(crate) async fn look_first(&self) -> Result<Vec<Found>, Failure> {
        let (found, mut unseen) = self.look().await;
        if !unseen.is_empty() {
            return Err(unseen.swap_remove(0).failure);
        }
        self.sources.iter().for_each(Source::keep_for_fleet);
        Ok(found)
    }

    /// The store with a name. Sources are asked only for what does not stand in the file.
    pub(crate) async fn find(&self, name: &str) -> Result<Place, Failure> {
        let named = |store: &&Listed<Place>| store.id.as_str() == name;
        if let Some(store) = self.fixed.iter().find(named) {
            return Ok(Arc::clone(&store.place));
        }
        let (found, mut unseen) = self.look().await;
        if let Some(found) = found.iter().find(|found| found.store.id.as_str() == name) {
            return Ok(Arc::clone(&found.store.place));
        }
        // It may be one of those that nobody can see now.
        if !unseen.is_empty() {
            let what = format!("there is no store {name:?} among those that can be seen");
            return Err(unseen.swap_remove(0).failure.inside(&what));
        }
        let names: Vec<_> = found.iter().map(|found| found.store.id.as_str()).collect();
        Err(unknown(name, &names))
    }
}

fn unknown(name: &str, names: &[&str]) -> Failure {
    let known = match names.len() {
        0 => "there is none at all".to_owned(),
        _ => {
            let mut near = names.to_vec();
            near.sort_by_key(|other| (distance(name, other), other.to_owned()));
            let more = names.len().saturating_sub(NAMES_TOLD);
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            near.truncate(NAMES_TOLD);
            format!("there is {}{more}", near.join(", "))
        }
    };
    let what = format!("there is no store {name:?}; {known}");
    Failure::new(Exit::Invalid, what).next("`postroom stores` lists them")
}

/// How many letters to add, take away or change until one is the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<_> = other.chars().collect();
    let mut row: Vec<_> = (0..=other.len()).collect();
    for (at, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, against) in other.iter().enumerate() {
            let change = diagonal + usize::from(letter != *against);
            diagonal = row[column + 1];
            row[column + 1] = change.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

/// For a fleet: a source that does not answer keeps what it had, and the others go on.
impl Discovery<Place> for Roster {
    fn discover(&self) -> BoxFuture<'_, postroom::Result<Vec<Listed<Place>>>> {
        Box::pin(async {
            let mut all = self.fixed.clone();
            for source in &self.sources {
                all.extend(source.look_or_keep().await);
            }
            Ok(all)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_1_near_names_come_first() {
        assert_eq!((distance("acme", "acme"), distance("acme", "acne")), (0, 1));
        assert_eq!((distance("", "abc"), distance("kitten", "sitting")), (3, 3));
        let names: Vec<_> = (0..30).map(|n| format!("tenant-{n:02}")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let told = unknown("tenant-2", &names);
        let near = "there is no store \"tenant-2\"; there is tenant-02, tenant-12, tenant-20";
        assert!(told.what().starts_with(near), "{}", told.what());
        assert!(told.what().ends_with(" and 20 more"), "{}", told.what());
        assert!(unknown("a", &[]).what().ends_with("there is none at all"));
    }
}
