//! Numbers as places on the paper.

use crate::report::Unit;
use crate::report::numbers::short;

/// From one number at one place to another number at another place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
    from: i32,
    to: i32,
}

impl Scale {
    /// From zero to these, by orders of magnitude where they are far apart.
    pub(super) fn covering(values: &[f64], from: i32, to: i32) -> Self {
        let high = values.iter().copied().fold(0.0, f64::max);
        let positive = values.iter().copied().filter(|value| *value > 0.0);
        let low = positive.fold(f64::INFINITY, f64::min);
        if low.is_finite() && high / low > 60.0 {
            return Self { low: low / 2.0, high: high * 1.1, logarithmic: true, from, to };
        }
        Self::from_zero(values, from, to)
    }

    /// From zero to these, however far apart they are.
    pub(super) fn from_zero(values: &[f64], from: i32, to: i32) -> Self {
        let high = values.iter().copied().fold(0.0, f64::max);
        let high = if high > 0.0 { high * 1.06 } else { 1.0 };
        Self { low: 0.0, high, logarithmic: false, from, to }
    }

    /// Exactly from the first to the last.
    pub(super) fn between(low: f64, high: f64, logarithmic: bool, from: i32, to: i32) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        Self { low, high, logarithmic: logarithmic && low > 0.0, from, to }
    }

    pub(super) fn place(self, value: f64) -> i32 {
        let share = if self.logarithmic {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + (share * f64::from(self.to - self.from)).round() as i32
    }

    /// Each tick in the unit that suits it, where they are far apart; else a number, of which the
    /// unit is said once.
    pub(super) fn label(self, unit: Unit, tick: f64) -> String {
        if self.logarithmic && unit == Unit::Seconds {
            return unit.show(tick);
        }
        short(tick * self.unit(unit).0)
    }

    /// What to multiply ticks with, and the name of the unit then.
    pub(super) fn unit(self, unit: Unit) -> (f64, &'static str) {
        if self.logarithmic && unit == Unit::Seconds {
            return (1.0, "");
        }
        unit.scale(self.ticks().last().copied().unwrap_or(0.0))
    }

    pub(super) fn covers(self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Round numbers to put lines at.
    pub(super) fn ticks(self) -> Vec<f64> {
        if self.logarithmic {
            let first = self.low.log10().ceil() as i32;
            return (first..first + 20)
                .map(|power| 10_f64.powi(power))
                .take_while(|tick| *tick <= self.high)
                .collect();
        }
        let step = round_step((self.high - self.low) / 5.0);
        let first = (self.low / step).ceil() as i64;
        (first..first + 20).map(|n| n as f64 * step).take_while(|tick| *tick <= self.high).collect()
    }
}

/// 1, 2 or 5, with zeros.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power);
    steps.into_iter().find(|step| *step >= least * 0.999).unwrap_or(power * 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_one_size_are_measured_from_zero() {
        let scale = Scale::covering(&[50.0, 100.0], 0, 106);
        assert_eq!((scale.place(0.0), scale.place(50.0), scale.place(100.0)), (0, 50, 100));
        assert_eq!(scale.ticks(), [0.0, 50.0, 100.0]);
    }

    #[test]
    fn numbers_of_many_sizes_are_measured_by_their_digits() {
        let scale = Scale::covering(&[0.00001, 0.1], 0, 1000);
        assert_eq!(scale.ticks().len(), 5);
        let steps: Vec<_> = scale.ticks().iter().map(|tick| scale.place(*tick)).collect();
        assert!(steps.windows(2).all(|pair| (pair[1] - pair[0] - (steps[1] - steps[0])).abs() < 2));
    }

    #[test]
    fn a_scale_of_nothing_is_a_scale() {
        let scale = Scale::covering(&[], 0, 100);
        assert_eq!(scale.place(0.0), 0);
        assert_eq!(Scale::between(5.0, 5.0, true, 0, 100).place(5.0), 0);
    }
}
