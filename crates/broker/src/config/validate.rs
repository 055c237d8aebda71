//! Validation of the raw configuration.

use nix::unistd::{Group, User};
use punctual_model::contract::MAX_CPUS;
use punctual_model::text_file::{self, Checked, Problem, choice, closest, printable};
use punctual_model::units::{Bytes, Share};
use punctual_model::{Duration, FileError, Service};
use toml::Spanned;

use super::raw::{RawConfig, RawHost, RawQuota, number, problem, within};
use super::{Config, MAX_CONFIG, Quota, Quotas, UpcallMode};
use punctual_client::want::Kind;

/// More than any switch costs: a mistaken unit.
const DEAREST_SWITCH: Service = Service::from_millis(1);

impl Config {
    /// Parses and validates the bytes of a configuration. `file` is only for the messages.
    ///
    /// Names of users and groups are looked up on this host (getpwnam_r(3), getgrnam_r(3)).
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, FileError> {
        if bytes.len() > MAX_CONFIG {
            let problem = format!("{} bytes; {MAX_CONFIG} is the most", bytes.len());
            return Err(FileError { file: file.into(), line: 1, column: 1, problem });
        }
        text_file::parse(file, "configuration", bytes, validate)
    }
}

fn validate(raw: RawConfig) -> Checked<Config> {
    let base = Config::default();
    let RawConfig { host, broker, channels, default, user, group } = raw;
    let (cpus, reservable_ppm, context_switch, upcalls) = validate_host(&host, &base)?;
    let default = quota(default, &base.quotas.default)?;
    let mut users = Vec::with_capacity(user.len());
    for raw in user {
        let whose = uid(raw.name.as_ref(), raw.uid.as_ref())?;
        users.push((whose, quota(raw.into_quota(), &default)?));
    }
    let mut groups = Vec::with_capacity(group.len());
    for raw in group {
        let whose = gid(raw.name.as_ref(), raw.gid.as_ref())?;
        let together_ppm = raw.together.map(|Share(ppm)| ppm);
        groups.push((whose, Quota { together_ppm, ..quota(raw.into_quota(), &default)? }));
    }
    let minute = Duration::from_secs(60);
    Ok(Config {
        cpus,
        reservable_ppm,
        context_switch,
        upcalls,
        grace: within(broker.grace, base.grace, Duration::ZERO, minute * 60)?,
        choose: within(broker.choose, base.choose, Duration::ZERO, minute * 60)?,
        penalty: within(broker.penalty, base.penalty, Duration::ZERO, minute * 60)?,
        run_limit: within(broker.run_limit, base.run_limit, Duration::from_millis(10), minute)?,
        sample: within(
            broker.sample,
            base.sample,
            Duration::from_millis(10),
            Duration::from_secs(1),
        )?,
        orphan: within(broker.orphan, base.orphan, Duration::ZERO, minute * 60)?,
        max_connections: number(broker.max_connections, base.max_connections, 1, 4_096)?,
        channels: channels.map(super::channels::validate).transpose()?,
        quotas: Quotas { default, users, groups },
    })
}

type Host = (Option<u16>, Option<u64>, Option<Service>, UpcallMode);

fn validate_host(raw: &RawHost, base: &Config) -> Checked<Host> {
    let cpus = raw.cpus.as_ref().map(|cpus| match u16::try_from(*cpus.get_ref()) {
        Ok(number) if (1..=MAX_CPUS).contains(&number) => Ok(number),
        _ => Err(problem(
            cpus,
            format!("{} CPUs; from 1 to {MAX_CPUS} can be promised", cpus.get_ref()),
        )),
    });
    let reservable = raw.reservable.as_ref().map(|given| match given.get_ref().0 {
        ppm @ 1..=950_000 => Ok(ppm),
        ppm => Err(problem(
            given,
            format!(
                "{} %; it must be above 0 and at most 95 %, so that ordinary work goes on",
                ppm / 10_000
            ),
        )),
    });
    let switch = match &raw.context_switch {
        None => base.context_switch,
        Some(given) => match *given.get_ref() {
            switch if switch <= DEAREST_SWITCH => Some(switch),
            switch => {
                return Err(problem(given, format!("{switch} is more than {DEAREST_SWITCH}")));
            }
        },
    };
    let mode = match &raw.upcalls {
        None => UpcallMode::Auto,
        Some(text) => choice("upcalls", text, &UpcallMode::NAMES)?,
    };
    Ok((cpus.transpose()?, reservable.transpose()?, switch, mode))
}

fn quota(raw: RawQuota, base: &Quota) -> Checked<Quota> {
    let allow = match raw.allow {
        None => base.allow.clone(),
        Some(names) => names.iter().map(kind).collect::<Checked<_>>()?,
    };
    let longest = Duration::from_secs(86_400);
    Ok(Quota {
        link_ppm: raw.link.map_or(base.link_ppm, |Share(ppm)| ppm),
        share_ppm: raw.share.map_or(base.share_ppm, |Share(ppm)| ppm),
        queue_memory: raw.queue_memory.map_or(base.queue_memory, |Bytes(bytes)| bytes),
        together_ppm: None,
        max_grants: number(raw.max_grants, base.max_grants, 0, 100_000)?,
        shortest_period: within(
            raw.shortest_period,
            base.shortest_period,
            Duration::ZERO,
            longest,
        )?,
        least_reservation_ppm: raw
            .least_reservation
            .map_or(base.least_reservation_ppm, |Share(ppm)| ppm),
        allow,
    })
}

fn kind(name: &Spanned<String>) -> Checked<Kind> {
    let found = Kind::NAMES.iter().find(|(known, _)| known == name.get_ref());
    found.map(|(_, kind)| *kind).ok_or_else(|| {
        let names = Kind::NAMES.map(|(known, _)| known);
        let mean = closest(name.get_ref(), names);
        let mean = mean.map_or(String::new(), |known| format!("; did you mean \"{known}\"?"));
        problem(name, format!("\"{}\" is none of {names:?}{mean}", printable(name.get_ref())))
    })
}

fn uid(name: Option<&Spanned<String>>, uid: Option<&Spanned<i64>>) -> Checked<u32> {
    let by_name = |name: &str| User::from_name(name).map(|user| user.map(|user| user.uid.as_raw()));
    id("user", "uid", name, uid, by_name)
}

fn gid(name: Option<&Spanned<String>>, gid: Option<&Spanned<i64>>) -> Checked<u32> {
    let by_name =
        |name: &str| Group::from_name(name).map(|group| group.map(|group| group.gid.as_raw()));
    id("group", "gid", name, gid, by_name)
}

fn id(
    kind: &str,
    key: &str,
    name: Option<&Spanned<String>>,
    number: Option<&Spanned<i64>>,
    by_name: impl Fn(&str) -> nix::Result<Option<u32>>,
) -> Checked<u32> {
    match (name, number) {
        (None, Some(number)) => u32::try_from(*number.get_ref())
            .map_err(|_| problem(number, format!("{} is no {key}", number.get_ref()))),
        (Some(name), None) => match by_name(name.get_ref()) {
            Ok(Some(id)) => Ok(id),
            Ok(None) => Err(problem(
                name,
                format!("there is no {kind} \"{}\" on this host", printable(name.get_ref())),
            )),
            Err(errno) => Err(problem(
                name,
                format!(
                    "the {kind} \"{}\" cannot be looked up: {errno}",
                    printable(name.get_ref())
                ),
            )),
        },
        (Some(name), Some(_)) => Err(problem(name, format!("give name or {key}, not both"))),
        (None, None) => Err(Problem {
            offset: 0,
            text: format!("a [[{kind}]] has neither name nor {key}, so it applies to no {kind}"),
        }),
    }
}
