//! Formats numbers and names for narrow columns, and all that is known of a row as lines.

use super::picture::{Late, Row};

/// Formats parts per million of a CPU as a percentage.
pub(crate) fn percent(ppm: u64) -> String {
    format!("{:.1}%", ppm as f64 / 10_000.0)
}

/// Formats a time in at most seven characters, such as `1.23ms`.
pub(crate) fn time(nanos: u64) -> String {
    let (value, unit) = match nanos {
        0..1_000 => return format!("{nanos}ns"),
        // A value that would round up to 1000 of a unit is shown as 1 of the next.
        1_000..999_500 => (nanos as f64 / 1e3, "us"),
        999_500..999_500_000 => (nanos as f64 / 1e6, "ms"),
        _ => (nanos as f64 / 1e9, "s"),
    };
    match value {
        0.0..9.995 => format!("{value:.2}{unit}"),
        9.995..99.95 => format!("{value:.1}{unit}"),
        _ => format!("{value:.0}{unit}"),
    }
}

/// Formats a time that may be negative.
pub(crate) fn signed_time(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    format!("{sign}{}", time(nanos.unsigned_abs()))
}

/// Formats a count in at most five characters.
pub(crate) fn count(number: u64) -> String {
    match number {
        0..100_000 => number.to_string(),
        100_000..10_000_000 => format!("{}k", number / 1_000),
        _ => format!("{}M", number / 1_000_000),
    }
}

/// Draws `used` of `granted` as a bar of `width` characters, which ends in `>` if `used` is
/// greater.
pub(crate) fn bar(used: u64, granted: u64, width: usize) -> String {
    let whole = used.saturating_mul(width as u64) / granted.max(1);
    let filled = usize::try_from(whole).unwrap_or(width).min(width);
    let mut bar: String = "#".repeat(filled) + &"·".repeat(width - filled);
    if used > granted && width > 0 {
        bar.pop();
        bar.push('>');
    }
    bar
}

/// Draws the last `width` values as one row of bars, the greatest at full height.
pub(crate) fn sparkline(values: &[u64], width: usize) -> String {
    const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = &values[values.len().saturating_sub(width)..];
    let most = shown.iter().copied().max().unwrap_or(0).max(1);
    let step = |value: u64| (u128::from(value) * 7).div_ceil(u128::from(most)) as usize;
    shown.iter().map(|value| STEPS[step(*value).min(7)]).collect()
}

/// Replaces characters that a terminal would obey by `?`, because programs choose the names of
/// threads.
pub(crate) fn plain(text: &str) -> String {
    let obeyed = |letter: char| letter.is_control() || is_format(letter);
    text.chars().map(|letter| if obeyed(letter) { '?' } else { letter }).collect()
}

/// Returns whether a letter is invisible and changes others: directions, joiners, tags.
fn is_format(letter: char) -> bool {
    matches!(letter, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// The most causes listed for a late job.
const CAUSES: usize = 5;

/// Returns all lines of the detail; the empty one is the place of the sparkline.
pub(crate) fn details(row: &Row) -> Vec<String> {
    let none = || "–".to_owned();
    let mut lines = vec![
        fact("what", &format!("{}: {}", row.kind, plain(&row.what))),
        fact("granted", &row.granted_ppm.map_or_else(none, percent)),
        fact("used", &row.used_ppm.map_or_else(none, percent)),
        fact("CPU", &row.cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string())),
        fact("jobs", &row.jobs.map_or_else(none, |jobs| jobs.to_string())),
        fact("late", &row.late.map_or_else(none, |late| late.to_string())),
        fact("least slack", &row.slack_ns.map_or_else(none, signed_time)),
    ];
    lines.extend(row.facts.iter().map(|(what, said)| fact(what, &plain(said))));
    lines.push(latencies(row));
    if !row.latencies.is_empty() {
        lines.push(String::new());
    }
    for late in &row.late_jobs {
        lines.extend(late_job(late));
    }
    lines
}

fn fact(what: &str, said: &str) -> String {
    format!("{what:<12}{said}")
}

/// Returns the percentiles of the recent wake-up latencies.
pub(crate) fn latencies(row: &Row) -> String {
    match [50, 99, 100].map(|percent| row.latency(percent)) {
        [Some(p50), Some(p99), Some(max)] => format!(
            "wake-up latency of the last {}: p50 {}, p99 {}, max {}",
            row.latencies.len(),
            time(p50),
            time(p99),
            time(max)
        ),
        _ => "No wake-up was seen.".to_owned(),
    }
}

/// Describes a late job and its causes.
pub(crate) fn late_job(late: &Late) -> Vec<String> {
    let Late { job, tardiness_ns, own_ns, causes } = late;
    let head = format!(
        "Job {job} was late by {}, after {} of its own work:",
        time(*tardiness_ns),
        time(*own_ns)
    );
    let causes = causes.iter().take(CAUSES);
    let causes = causes.map(|(share, cause)| format!("  {:>8}  {}", time(*share), plain(cause)));
    std::iter::once(head).chain(causes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_stay_within_seven_characters() {
        let said = [0, 999, 1_000, 12_345, 999_499, 999_500, 2_500_000, 99_999_999, 61_000_000_000];
        let said = said.map(time);
        assert_eq!(
            said,
            ["0ns", "999ns", "1.00us", "12.3us", "999us", "1.00ms", "2.50ms", "100ms", "61.0s"]
        );
        for exponent in 0..60 {
            let nanos = 1_u64 << exponent;
            let nanos = nanos.min(99_999_000_000_000);
            assert!(time(nanos).len() <= 7, "{nanos}: {}", time(nanos));
        }
        assert_eq!((signed_time(-1_500), signed_time(7)), ("-1.50us".into(), "7ns".into()));
    }

    #[test]
    fn counts_stay_within_five_characters() {
        assert_eq!([0, 99_999, 100_000, 12_345_678].map(count), ["0", "99999", "100k", "12M"]);
    }

    #[test]
    fn a_bar_is_as_full_as_the_budget_is_used() {
        assert_eq!(bar(0, 100, 4), "····");
        assert_eq!(bar(50, 100, 4), "##··");
        assert_eq!(bar(100, 100, 4), "####");
        assert_eq!(bar(101, 100, 4), "###>");
        assert_eq!((bar(5, 0, 2), bar(1, 1, 0)), ("#>".into(), String::new()));
    }

    #[test]
    fn a_sparkline_shows_the_newest_and_its_greatest_is_full() {
        assert_eq!(sparkline(&[9, 0, 7, 14], 3), "▁▅█");
        assert_eq!(sparkline(&[], 3), "");
        assert_eq!(sparkline(&[0, 0], 3), "▁▁");
        assert_eq!(sparkline(&[u64::MAX, 1], 9), "█▂");
    }

    #[test]
    fn a_name_cannot_command_the_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb\u{202e}c\n"), "a?[2Jb?c?");
        assert_eq!(plain("Gerät-1"), "Gerät-1");
    }
}
