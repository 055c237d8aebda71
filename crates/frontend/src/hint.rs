//! Names the options and commands by which a person follows a remedy.
//!
//! The messages of the libraries are read by callers from C, Rust and Python too, so they end with
//! a remedy in words. This adds what a program calls it.

use punctual::{Message, Remedy};

/// Returns the text of `message`, and the option or the command that its remedy is.
pub fn told(message: &Message) -> String {
    let option = message.remedy().map_or_else(String::new, option);
    format!("{message}{option}")
}

/// Returns how to follow a remedy, to be read after the words for it.
fn option(remedy: &Remedy) -> String {
    match remedy {
        Remedy::Calibrate(None) => ": punctual calibrate".into(),
        Remedy::Calibrate(Some(file)) => {
            format!(": punctual calibrate --output {}", file.display())
        }
        Remedy::Replace => " with --force".into(),
        Remedy::StartBroker => ", or as root: punctual serve".into(),
        Remedy::UseBroker => ": leave --no-broker out".into(),
        Remedy::HoldByKernel => ": --backend kernel".into(),
        Remedy::KeepAwake => ": punctual run --awake".into(),
        Remedy::LetHalt => ": leave --awake out".into(),
        Remedy::Periods => "; see --from and --to".into(),
        Remedy::HighJobs => "; see --high-jobs".into(),
        Remedy::Flood => "; see --flood".into(),
        Remedy::Join => "; see --join".into(),
        Remedy::Leave => "; see --leave".into(),
        Remedy::JoinAndLeave => "; see --join and --leave".into(),
        Remedy::Until(time) => format!("; write --for {time}"),
        Remedy::StolenOrUntil(time) => format!("; write a longer --stolen, or --for {time}"),
        Remedy::NoSearch => ": leave --witness out".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_followed_by_the_option_that_helps() {
        let plain = Message::new("a.json: there is a file of this name; overwrite it");
        assert_eq!(told(&plain), plain.text());
        let expected = "a.json: there is a file of this name; overwrite it with --force";
        assert_eq!(told(&plain.with(Remedy::Replace)), expected);
    }
}
