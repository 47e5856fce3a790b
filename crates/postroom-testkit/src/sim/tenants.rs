//! Claims in which tenants take turns, by the rules of [`postroom_core::store::tenants`].

use postroom_core::store::tenants::{Round, part, tenants_wanted};

use super::queue::Taking;
use super::state::{Row, State};

impl State {
    pub(super) fn claim_in_turn(&mut self, taking: &mut Taking<'_>) {
        loop {
            let round = self.round(taking);
            if !self.rotation.go_on(round, taking.room) {
                return;
            }
        }
    }

    fn round(&mut self, taking: &mut Taking<'_>) -> Round {
        let eligible = self.takeable(taking);
        let (visited, was_all) = self.visited(&eligible, tenants_wanted(taking.room));
        let count = visited.len() as u32;
        let (mut chosen, mut is_more) = (Vec::new(), false);
        for (place, tenant) in (0..).zip(&visited) {
            let share = part(taking.room, count, place);
            let mut taken = 0;
            for (seq, _) in eligible.iter().filter(|(_, whose)| whose == tenant) {
                let is_suspect = self.row(*seq).is_some_and(Row::is_suspect);
                if taken == share || is_suspect && !taking.allow_suspect() {
                    continue;
                }
                chosen.push((taken, place, *seq));
                taken += 1;
            }
            is_more |= taken == share;
        }
        chosen.sort_unstable();
        let until = taking.now.saturating_add(taking.claim.lease());
        for (.., seq) in &chosen {
            let leased = self.lease(*seq, until, taking);
            taking.note(leased);
        }
        let taken = chosen.len() as u32;
        taking.room -= taken;
        let (first, last) = (visited.first().copied(), visited.last().copied());
        Round { first, last, was_all, is_more, taken }
    }

    /// What may be claimed, in claim order, with its tenant.
    fn takeable(&self, taking: &Taking<'_>) -> Vec<(i64, i64)> {
        let rows = self.eligible(taking).into_iter().filter_map(|seq| Some((seq, self.row(seq)?)));
        let allowed = rows.filter(|(_, row)| taking.suspects > 0 || !row.is_suspect());
        allowed.map(|(seq, row)| (seq, row.tenant)).collect()
    }

    /// The next tenants of those that have something, and whether these are all.
    fn visited(&self, eligible: &[(i64, i64)], wanted: u32) -> (Vec<i64>, bool) {
        let after = self.rotation.after();
        let mut tenants: Vec<_> = eligible.iter().map(|(_, tenant)| *tenant).collect();
        tenants.sort_unstable_by_key(|tenant| (*tenant >= after, std::cmp::Reverse(*tenant)));
        tenants.dedup();
        let was_all = tenants.len() < wanted as usize;
        tenants.truncate(wanted as usize);
        (tenants, was_all)
    }

    fn row(&self, seq: i64) -> Option<&Row> {
        self.queue.get(&seq).or_else(|| self.parked.get(&seq))
    }
}
