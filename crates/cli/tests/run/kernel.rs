//! `--backend kernel`: SCHED_DEADLINE for the first thread.

use super::live::{Live, SHOW_POLICY, json, number, run, text};

const KERNEL: [&str; 4] = ["--backend", "kernel", "--reserve", "2ms/100ms"];

fn with(options: &[&'static str], program: &[&'static str]) -> Vec<&'static str> {
    [&KERNEL[..], options, &["--"], program].concat()
}

#[test]
fn the_program_runs_under_sched_deadline_and_its_children_do_not() {
    let script = format!("{SHOW_POLICY}; sh -c '{SHOW_POLICY}'; :");
    let arguments = [&with(&[], &["sh", "-c"])[..], &[&script]].concat();
    let Some(output) = run(&arguments) else { return };
    assert_eq!(text(&output.stdout), "6\n0\n", "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(0));
    for part in ["by the kernel, for the first thread", "that 2ms/100ms, hard, offered"] {
        assert!(text(&output.stderr).contains(part), "{}", text(&output.stderr));
    }
}

#[test]
fn the_use_of_a_hog_is_reported() {
    let hog = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exit 7";
    let arguments =
        ["--backend", "kernel", "--reserve", "2ms/10ms", "--json", "--", "sh", "-c", hog];
    let Some(output) = run(&arguments) else { return };
    assert_eq!(output.status.code(), Some(7));
    let summary = json(&output);
    let number = |key: &str| number(&summary, key);
    assert_eq!((number("budget_ns"), number("period_ns")), (2_000_000, 10_000_000));
    assert_eq!(number("offered_ns"), 2_000_000 * number("periods"));
    assert!(number("exec_time_ns") > 0 && number("wall_ns") > number("exec_time_ns"));
    assert!(number("inside_ns") <= number("exec_time_ns") + 1_000_000);
    assert!(summary["used_percent"].as_f64().expect("a number") > 0.0);
    assert_eq!((&summary["exit_code"], summary["signal"].is_null()), (&7.into(), true));
    assert_eq!((&summary["backend"], &summary["command"][0]), (&"kernel".into(), &"sh".into()));
}

#[test]
fn a_signal_is_passed_on_and_the_summary_still_printed() {
    let arguments = with(&["--json"], &["sh", "-c", "echo $$; exec sleep 600"]);
    let Some(live) = Live::with_ids(&arguments, 1) else { return };
    live.signal("TERM");
    let output = live.output();
    assert_eq!(output.status.code(), Some(128 + 15));
    assert_eq!(json(&output)["signal"], 15);
}

#[test]
fn options_that_the_kernel_lacks_are_refused_with_a_correction() {
    for (options, right) in [
        (&["--reserve", "10ns/1ms"][..], "1.024us"),
        (&["--reserve", "1ms/10s"], "sched_deadline_period_max_us"),
        (&["--reserve", "2us/50us"], "sched_deadline_period_min_us"),
        (&["--reserve", "2ms/8ms", "--soft"], "ask for hard, or for the timetable"),
        (&["--reserve", "2ms/8ms", "--cpu", "0"], "leave the CPU out"),
    ] {
        let arguments = [&["--backend", "kernel"], options, &["--", "true"]].concat();
        let Some(output) = run(&arguments) else { return };
        let why = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {why}");
        assert!(why.contains(right) && !why.contains("panicked"), "{options:?}: {why}");
    }
}
