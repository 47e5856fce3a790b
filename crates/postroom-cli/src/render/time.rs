//! Times: absolute in UTC, and relative to now.

use std::time::Duration;

use postroom::Timestamp;

/// `2026-11-15 14:03:11Z`, whole seconds.
pub(crate) fn absolute(time: Timestamp) -> String {
    match jiff::Timestamp::from_second(time.as_micros().div_euclid(1_000_000)) {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%SZ").to_string(),
        // The last second that stores know is past the last one that jiff knows.
        Err(_) => "9999-12-31 23:59:59Z".to_owned(),
    }
}

/// RFC 3339 with microseconds, for machines.
pub(crate) fn rfc3339(time: Timestamp) -> String {
    match jiff::Timestamp::from_microsecond(time.as_micros()) {
        Ok(time) => format!("{time:.6}"),
        Err(_) => "9999-12-31T23:59:59.000000Z".to_owned(),
    }
}

/// `3m20s ago`, `in 2h`, `now`.
pub(crate) fn relative(time: Timestamp, now: Timestamp) -> String {
    // To the nearest second, so that what is due in ten minutes is so at the first look, too.
    let nearest = Duration::from_millis(500);
    let (ahead, behind) = (time.since(now) + nearest, now.since(time) + nearest);
    if ahead.as_secs() > 0 {
        format!("in {}", short(ahead))
    } else if behind.as_secs() > 0 {
        format!("{} ago", short(behind))
    } else {
        "now".to_owned()
    }
}

/// `2026-11-15 14:03:11Z (3m20s ago)`.
pub(crate) fn both(time: Timestamp, now: Timestamp) -> String {
    format!("{} ({})", absolute(time), relative(time, now))
}

/// The largest unit that fits, and the next one where that matters: `1m30s`, `2h`, `40d`.
pub(crate) fn short(duration: Duration) -> String {
    const UNITS: [(u64, &str); 5] =
        [(31_536_000, "y"), (86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    let seconds = duration.as_secs();
    let Some(place) = UNITS.iter().position(|(size, _)| seconds >= *size) else {
        return "0s".to_owned();
    };
    let (size, unit) = UNITS[place];
    let (count, rest) = (seconds / size, seconds % size);
    match UNITS.get(place + 1) {
        Some((size, unit_of_rest)) if count < 10 && rest >= *size => {
            format!("{count}{unit}{}{unit_of_rest}", rest / size)
        }
        _ => format!("{count}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::now;
    use super::*;

    #[test]
    fn times_are_absolute_and_relative() {
        assert_eq!(absolute(now()), "2026-11-15 14:00:00Z");
        assert_eq!(rfc3339(now()), "2026-11-15T14:00:00.000000Z");
        let earlier = now().saturating_sub(Duration::from_secs(200));
        assert_eq!(both(earlier, now()), "2026-11-15 13:56:40Z (3m20s ago)");
        assert_eq!(absolute(Timestamp::FAR_FUTURE), "9999-12-31 23:59:59Z");
    }

    #[test]
    fn distances_use_the_largest_units() {
        for (seconds, expected) in [
            (0, "now"),
            (1, "in 1s"),
            (59, "in 59s"),
            (60, "in 1m"),
            (90, "in 1m30s"),
            (600, "in 10m"),
            (659, "in 10m"),
            (7_199, "in 1h59m"),
            (86_399, "in 23h"),
            (86_400, "in 1d"),
            (93_600, "in 1d2h"),
            (31_536_000, "in 1y"),
        ] {
            let time = now().saturating_add(Duration::from_secs(seconds));
            assert_eq!(relative(time, now()), expected);
        }
        assert_eq!(relative(now().saturating_sub(Duration::from_secs(90)), now()), "1m30s ago");
    }
}
