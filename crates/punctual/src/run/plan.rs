//! Makes programs of the commands of a contract, and plans their start.

use punctual_channel::client::compact::Compact;
use punctual_model::{self as model, Contract};
use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::channel;
use super::error::{Error, quoted};
use super::terms::{Program, Reserve, Terms, serialize_terms};

/// The plan of a start. Nothing has been started.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Plan {
    /// Always true: a contract that is refused has no plan.
    pub admitted: bool,
    /// Each program, in the order of the contract.
    pub commands: Vec<Planned>,
    /// Names the entries of the contract that were counted in admission and that no program holds
    /// here, if there are any.
    pub only_admitted: Option<String>,
}

/// The plan for one program.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The program and its arguments.
    pub run: Vec<String>,
    /// The terms that would hold it; `None` for an ordinary program.
    pub terms: Option<Terms>,
    /// The channel of its datagrams, if it has one.
    pub channel: Option<Compact>,
}

/// Keys are never renamed, only added.
impl Serialize for Planned {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_struct("Planned", 11)?;
        row.serialize_field("name", &self.name)?;
        row.serialize_field("run", &self.run)?;
        serialize_terms(&mut row, self.terms.as_ref())?;
        row.serialize_field("channel", &self.channel.as_ref().map(Compact::to_string))?;
        row.end()
    }
}

/// Returns the commands of a contract that `only` names, or all if it is empty, in the order of the
/// contract.
pub(super) fn commands<'a>(
    contract: &'a Contract,
    only: &[String],
) -> Result<Vec<&'a model::Command>, Error> {
    let names = || contract.commands.iter().map(model::Command::name);
    if contract.commands.is_empty() {
        return Err(Error::NoCommand);
    }
    if let Some(unknown) = only.iter().find(|only| !names().any(|name| name == **only)) {
        let known = names().map(str::to_owned).collect();
        return Err(Error::UnknownCommand { name: unknown.clone(), known });
    }
    let wanted = |command: &&model::Command| {
        only.is_empty() || only.iter().any(|name| name == command.name())
    };
    Ok(contract.commands.iter().filter(wanted).collect())
}

/// Makes a program of a command of the contract.
pub(super) fn program(command: &model::Command, contract: &Contract) -> Program {
    let reserve = command.held().map(|holding| Reserve {
        // The contract's validation ensures that the index is in range.
        reservation: contract.reservations[holding.reservation].reservation,
        enforcement: Some(holding.enforcement),
        backend: holding.backend,
        cpu: holding.cpu.map(usize::from),
        adapt: holding.adapt,
        memory: holding.memory,
    });
    let environment = command.environment().iter();
    Program {
        name: Some(command.name().to_owned()),
        environment: environment.map(|(name, value)| (name.into(), value.into())).collect(),
        directory: command.directory().map(Into::into),
        reserve,
        channel: channel::of_command(command, contract),
        ..Program::new(command.program(), command.arguments())
    }
}

/// Names the entries that admission counted and that none of the `commands` holds or runs; `None`
/// if there are none.
pub(super) fn only_admitted(contract: &Contract, commands: &[&model::Command]) -> Option<String> {
    let held = commands.iter().filter_map(|command| command.held());
    let held: Vec<usize> = held.map(|holding| holding.reservation).collect();
    let free = contract.reservations.iter().enumerate().filter(|(at, _)| !held.contains(at));
    let upcalls: Vec<&str> = contract.upcalls.iter().map(model::Upcall::name).collect();
    // Upcalls are among the tasks too, in their form as tasks.
    let tasks = contract.tasks.iter().map(model::Task::name).filter(|task| !upcalls.contains(task));
    let sent: Vec<usize> = commands.iter().filter_map(|command| command.channel()).collect();
    let channels = contract.channels.iter().enumerate().filter(|(at, _)| !sent.contains(at));
    let channels = channels.map(|(_, channel)| channel.name());
    let best_effort = contract.best_effort.iter().map(|channel| &*channel.name);
    let kinds = [
        ("reservations", free.map(|(_, named)| &*named.name).collect()),
        ("tasks", tasks.collect()),
        ("upcalls", upcalls.clone()),
        ("channels", channels.chain(best_effort).collect()),
        ("streams", contract.streams.iter().map(model::Stream::name).collect::<Vec<_>>()),
    ];
    let some = kinds.iter().filter(|(_, names)| !names.is_empty());
    let lists: Vec<String> =
        some.map(|(kind, names)| format!("{kind} {}", quoted(names))).collect();
    (!lists.is_empty()).then(|| {
        format!("only admitted, as no command here holds or runs them: {}", lists.join("; "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"
        [[reservation]]
        name = "a"
        budget = "2ms"
        period = "20ms"
        [[reservation]]
        name = "spare"
        budget = "1ms"
        period = "50ms"
        [[command]]
        name = "first"
        run = ["true", "-x"]
        reservation = "a"
        directory = "/"
        environment = { WORD = "hello" }
        [[command]]
        name = "second"
        run = ["false"]
    "#;

    fn contract(text: &str) -> Contract {
        Contract::parse("test", text.as_bytes()).expect("valid")
    }

    #[test]
    fn unknown_commands_are_refused() {
        let of = contract(TWO);
        let names = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
            let all = commands(&of, &only).map_err(|error| error.to_string())?;
            Ok::<_, String>(all.iter().map(|command| command.name().to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]), Ok(vec!["first".to_owned(), "second".to_owned()]));
        assert_eq!(names(&["second"]), Ok(vec!["second".to_owned()]));
        let unknown = "there is no command \"third\"; there is \"first\", \"second\"".to_owned();
        assert_eq!(names(&["second", "third"]), Err(unknown));
        let none = contract("[[reservation]]\nname = \"a\"\nbudget = \"1ms\"\nperiod = \"9ms\"\n");
        assert!(matches!(commands(&none, &[]), Err(Error::NoCommand)));
    }

    #[test]
    fn a_command_is_a_program_with_all_that_it_declares() {
        let of = contract(TWO);
        let first = program(&of.commands[0], &of);
        assert_eq!((first.program, first.arguments), ("true".into(), vec!["-x".into()]));
        assert_eq!(first.environment, [("WORD".into(), "hello".into())]);
        assert_eq!(first.directory, Some("/".into()));
        let reserve = first.reserve.expect("it holds a");
        assert_eq!(reserve.reservation.to_string(), "2ms/20ms");
        assert_eq!(program(&of.commands[1], &of).reserve, None);
    }

    #[test]
    fn entries_without_a_command_are_named() {
        let of = contract(TWO);
        let all: Vec<_> = of.commands.iter().collect();
        let rest = only_admitted(&of, &all).expect("spare");
        assert!(rest.contains("reservations \"spare\"") && !rest.contains("\"a\""), "{rest}");
        let rest = only_admitted(&of, &all[1..]).expect("both");
        assert!(rest.contains("reservations \"a\", \"spare\""), "{rest}");
    }
}
