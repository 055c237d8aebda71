//! `rtkit.toml`: what each program's threads get.
//!
//! ```toml
//! [rtkit]
//! without_polkit = "refuse"     # or "allow"
//!
//! [default]                     # every program not named below
//! grant = "200us/10ms"          # at first
//! most = "20%"                  # of a CPU, if it needs more
//!
//! [[program]]
//! name = "pipewire"
//! grant = "500us/5ms"
//! ```
//!
//! Every key, with unit and default, is in `docs/rtkit.md`. Unknown keys are refused; an error names
//! file, line and column.

use std::path::Path;

use punctual_client::want::LONGEST;
use punctual_model::text_file::{self, Checked, choice, printable, problem};
use punctual_model::units::{Share, percent};
use punctual_model::{Duration, FileError, Reservation, Service};
use serde::Deserialize;
use toml::Spanned;

/// The longest configuration, in bytes.
const MAX_CONFIG: usize = 1 << 20;

/// The bytes that the kernel keeps of a program's name (`TASK_COMM_LEN`, without the final zero).
const COMM: usize = 15;

/// What the threads of a program get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// Whether they get anything.
    pub(crate) allow: bool,
    /// The processor time of each period, at first.
    pub(crate) grant: Reservation,
    /// The part of a CPU to which that may grow, in parts per million.
    pub(crate) most_ppm: u64,
}

/// The valid configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    /// The limit on running time that programs are told to set for themselves.
    pub(crate) rttime: Duration,
    /// The lowest nice value that a thread can get.
    pub(crate) min_nice: i32,
    /// Whether everybody may ask where there is no polkit.
    pub(crate) without_polkit: bool,
    default: Rule,
    programs: Vec<(String, Rule)>,
}

impl Default for Config {
    fn default() -> Self {
        let grant = Reservation::new(Service::from_micros(200), Duration::from_millis(10));
        let grant = grant.expect("a budget below its period");
        Self {
            rttime: Duration::from_millis(200),
            min_nice: -15,
            without_polkit: false,
            default: Rule { allow: true, grant, most_ppm: 200_000 },
            programs: Vec::new(),
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawConfig {
    #[serde(default)]
    rtkit: RawRtkit,
    #[serde(default)]
    default: RawRule,
    #[serde(default)]
    program: Vec<RawProgram>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawRtkit {
    rttime: Option<Spanned<Duration>>,
    min_nice: Option<Spanned<i64>>,
    without_polkit: Option<Spanned<String>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawRule {
    allow: Option<bool>,
    grant: Option<Spanned<Reservation>>,
    most: Option<Spanned<Share>>,
}

// `flatten` would lose the places of the values, so the keys of a rule are written out.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawProgram {
    name: Spanned<String>,
    allow: Option<bool>,
    grant: Option<Spanned<Reservation>>,
    most: Option<Spanned<Share>>,
}

/// The words for a host without polkit.
const WITHOUT_POLKIT: [(&str, bool); 2] = [("refuse", false), ("allow", true)];

impl Config {
    /// Reads and validates a configuration.
    ///
    /// # Errors
    /// The place of what is wrong, or why the file cannot be read.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let file = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|why| format!("{file}: {why}"))?;
        Self::parse(&file, &bytes).map_err(|why| why.to_string())
    }

    fn parse(file: &str, bytes: &[u8]) -> Result<Self, FileError> {
        if bytes.len() > MAX_CONFIG {
            let problem = format!("{} bytes; {MAX_CONFIG} is the most", bytes.len());
            return Err(FileError { file: file.into(), line: 1, column: 1, problem });
        }
        text_file::parse(file, "configuration", bytes, validate)
    }

    /// Returns the rule for the threads of the program with this name.
    pub(crate) fn rule_of(&self, comm: &str) -> Rule {
        let named = self.programs.iter().find(|(name, _)| name == comm);
        named.map_or(self.default, |(_, rule)| *rule)
    }
}

fn validate(raw: RawConfig) -> Checked<Config> {
    let base = Config::default();
    let RawConfig { rtkit, default, program } = raw;
    let rttime = match rtkit.rttime {
        None => base.rttime,
        Some(given) => {
            let (least, most) = (Duration::from_millis(10), Duration::from_secs(60));
            if !(least..=most).contains(given.get_ref()) {
                let why = format!("{} is not from {least} to {most}", given.get_ref());
                return problem(given.span(), why);
            }
            given.into_inner()
        }
    };
    let min_nice = match rtkit.min_nice {
        None => base.min_nice,
        Some(given) => match i32::try_from(*given.get_ref()) {
            Ok(nice @ -20..=0) => nice,
            _ => return problem(given.span(), format!("{} is not from -20 to 0", given.get_ref())),
        },
    };
    let without_polkit = match &rtkit.without_polkit {
        None => base.without_polkit,
        Some(word) => choice("without_polkit", word, &WITHOUT_POLKIT)?,
    };
    let default = rule(default, base.default)?;
    let mut programs: Vec<(String, Rule)> = Vec::with_capacity(program.len());
    for RawProgram { name, allow, grant, most } in program {
        let of = name.get_ref();
        if of.is_empty() || of.len() > COMM {
            let why = format!(
                "\"{}\" has {} bytes: give the 1 to {COMM} that /proc/PID/comm has",
                printable(of),
                of.len()
            );
            return problem(name.span(), why);
        }
        if programs.iter().any(|(known, _)| known == of) {
            let why = format!("\"{}\" is here for the second time; keep one", printable(of));
            return problem(name.span(), why);
        }
        programs.push((name.into_inner(), rule(RawRule { allow, grant, most }, default)?));
    }
    Ok(Config { rttime, min_nice, without_polkit, default, programs })
}

fn rule(raw: RawRule, base: Rule) -> Checked<Rule> {
    let grant = match &raw.grant {
        None => base.grant,
        Some(given) if given.get_ref().period() > LONGEST => {
            let period = given.get_ref().period();
            return problem(given.span(), format!("the period {period} is longer than {LONGEST}"));
        }
        Some(given) => *given.get_ref(),
    };
    let at_first = grant.utilisation_ppm();
    let most_ppm = match raw.most {
        None => base.most_ppm.max(at_first),
        Some(given) => match given.get_ref().0 {
            most if (at_first..=1_000_000).contains(&most) => most,
            most => {
                let (most, at_first) = (percent(most), percent(at_first));
                let why = format!("{most} is not from the {at_first} of the grant to 100 %");
                return problem(given.span(), why);
            }
        },
    };
    Ok(Rule { allow: raw.allow.unwrap_or(base.allow), grant, most_ppm })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse("rtkit.toml", text.as_bytes()).map_err(|why| why.to_string())
    }

    #[test]
    fn the_packaged_configuration_is_the_default() {
        let packaged = include_str!("../../../packaging/rtkit.toml");
        assert_eq!(parse(packaged), Ok(Config::default()));
        assert_eq!(parse(""), Ok(Config::default()));
    }

    #[test]
    fn a_program_has_its_own_rule_and_else_the_default() {
        let config = parse(
            "[default]\ngrant = \"1ms/20ms\"\n\
             [[program]]\nname = \"pipewire\"\ngrant = \"500us/1ms\"\n\
             [[program]]\nname = \"hog\"\nallow = false\n",
        );
        let config = config.expect("valid");
        assert_eq!(config.rule_of("pipewire").grant, "500us/1ms".parse().expect("valid"));
        assert_eq!(config.rule_of("pipewire").most_ppm, 500_000, "no less than the grant");
        assert!(config.rule_of("pipewire").allow && !config.rule_of("hog").allow);
        let other = config.rule_of("other");
        assert_eq!((other.grant, other.most_ppm), ("1ms/20ms".parse().expect("valid"), 200_000));
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (text, says) in [
            ("[default]\ngrnt = \"1ms/2ms\"", "rtkit.toml:2:1: unknown field `grnt`"),
            ("[default]\ngrant = \"1ms\"", "rtkit.toml:2:9:"),
            ("[default]\ngrant = \"1ms/2s\"", "longer than 1s"),
            ("[default]\ngrant = \"5ms/10ms\"\nmost = \"20%\"", "not from the 50.0 %"),
            ("[rtkit]\nrttime = \"1ms\"", "not from 10ms to 60s"),
            ("[rtkit]\nmin_nice = -21", "not from -20 to 0"),
            ("[rtkit]\nwithout_polkit = \"alow\"", "choose refuse or allow"),
            ("[[program]]\nname = \"a-much-too-long-name\"", "1 to 15"),
            ("[[program]]\nname = \"a\"\n[[program]]\nname = \"a\"", "second time"),
        ] {
            let problem = parse(text).expect_err(text);
            assert!(problem.contains(says), "{text}: {problem}");
        }
    }
}
