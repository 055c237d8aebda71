//! Writes the findings as a contract (docs/contract.md).

use punctual_model::{Duration, Service};

use super::finding::Finding;
use crate::program::Target;

/// Writes one reservation for the whole program, because a command holds one: the sum of the
/// budgets in the shortest of the periods, in which each thread may be released once.
pub(super) fn of(findings: &[Finding], target: &Target) -> String {
    let proposed: Vec<_> =
        findings.iter().filter_map(|one| Some((one, one.proposal?.reservation))).collect();
    let Some(period) = proposed.iter().map(|(_, one)| one.period()).min() else {
        return "# No thread is periodic: there is nothing to reserve.\n".to_owned();
    };
    let budgets = proposed.iter().map(|(_, one)| one.budget());
    let budget = budgets.fold(Service::ZERO, Service::saturating_add);
    let mut text = String::new();
    for (Finding { name, tid, .. }, reservation) in &proposed {
        text += &format!("# {} ({tid}) needs {reservation}\n", name.escape_debug());
    }
    if budget.at_full_speed() > period {
        return text
            + "# Together that is more than one CPU: one reservation cannot hold all of it.\n";
    }
    let command = match target {
        Target::Program(words) => &words[..],
        Target::Process(_) => &[],
    };
    let program = command.first().map(|word| word.to_string_lossy());
    let program = program.as_deref().unwrap_or("program");
    let name: String = program.rsplit('/').next().unwrap_or(program).chars().take(48).collect();
    let name = quoted(&name);
    text += &reservation(&name, budget, period);
    let words: Vec<String> = command.iter().map(|word| quoted(&word.to_string_lossy())).collect();
    if !words.is_empty() {
        text += &format!(
            "\n[[command]]\nname = {}\nrun = [{}]\nreservation = {name}\n",
            quoted(&format!("run {}", name.trim_matches('"'))),
            words.join(", ")
        );
    }
    text
}

fn reservation(name: &str, budget: Service, period: Duration) -> String {
    format!("[[reservation]]\nname = {name}\nbudget = \"{budget}\"\nperiod = \"{period}\"\n")
}

/// Quotes a text as a basic string of TOML 1.0.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            control if control.is_control() => {
                quoted += &format!("\\u{:04X}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_text_is_read_back() {
        for text in ["plain", "a \"b\" \\c", "tab\tand\u{1}", "ünïcode"] {
            let toml = format!("[[command]]\nname = \"a\"\nrun = [{}]\n", quoted(text));
            let contract = punctual_model::Contract::parse("x", toml.as_bytes()).expect(&toml);
            assert_eq!(contract.commands[0].program(), text);
        }
    }
}
