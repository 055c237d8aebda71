//! Executes a command line, one command after the other (V.250 §5.3.1, §5.6).

use punctual_model::Instant;

use super::Order;
use super::command::{self, Command, Parameter};
use super::interpreter::{Interpreter, Phase};
use super::registers::Register;
use super::result::ResultCode;
use super::settings::Settings;

/// The result of a command.
enum Outcome {
    /// The next command may follow.
    Next,
    /// The line ends with this code.
    With(ResultCode),
    /// The line ends; the call gives the result code later.
    Later,
}

impl Interpreter {
    /// Executes a whole line. Settings made before an ERROR stay.
    pub(super) fn execute(&mut self, now: Instant, body: &[u8]) {
        match self.run(now, body) {
            Outcome::Next => self.output.result(ResultCode::Ok, &self.settings),
            Outcome::With(code) => self.output.result(code, &self.settings),
            Outcome::Later => {}
        }
    }

    fn run(&mut self, now: Instant, body: &[u8]) -> Outcome {
        let mut rest = body.trim_ascii();
        while !rest.is_empty() {
            let Some((command, after)) = command::next(rest, &self.settings) else {
                return Outcome::With(ResultCode::Error);
            };
            match self.carry_out(now, command) {
                Outcome::Next => rest = after.trim_ascii_start(),
                done => return done,
            }
        }
        Outcome::Next
    }

    fn carry_out(&mut self, now: Instant, command: Command) -> Outcome {
        let settings = &mut self.settings;
        match command {
            Command::Dial(number) => return self.begin(now, Order::Dial(number)),
            Command::Answer => return self.begin(now, Order::Answer),
            Command::HangUp => self.hang_up(),
            Command::Online => return self.back_online(now),
            Command::Reset => {
                self.hang_up();
                self.settings = Settings::default();
                // Anything after Z on its line is ignored (V.250 §6.1.1).
                return Outcome::With(ResultCode::Ok);
            }
            Command::Factory => *settings = Settings::default(),
            Command::Echo(on) => settings.echo = on,
            Command::Verbose(on) => settings.verbose = on,
            Command::Quiet(on) => settings.quiet = on,
            Command::Detail(x) => settings.x = x,
            Command::Loudness(level) => settings.loudness = level,
            Command::Monitor(mode) => settings.monitor = mode,
            Command::FollowCarrier(on) => settings.follow_carrier = on,
            Command::TerminalGone(what) => settings.terminal_gone = what,
            Command::Modulation(modulation, automode) => {
                (settings.modulation, settings.automode) = (modulation, automode);
            }
            Command::Errors(selection) => settings.errors = selection,
            Command::ReportErrors(on) => settings.report_errors = on,
            Command::ReportModulation(on) => settings.report_modulation = on,
            Command::Compression(selection) => settings.compression = selection,
            Command::ReportCompression(on) => settings.report_compression = on,
            Command::DialMethod => {}
            Command::SetRegister(register, value) => {
                if settings.registers.set(register, value).is_err() {
                    return Outcome::With(ResultCode::Error);
                }
            }
            Command::ShowRegister(register) => {
                let value = match register {
                    Register::Rings => self.rings(now),
                    other => self.settings.registers.get(other),
                };
                self.say(&format!("{value:03}"));
            }
            Command::Show => self.say(&self.settings.show()),
            Command::Identify(text) => self.say(text),
            Command::Ranges("") => {}
            Command::Ranges(text) => self.say(text),
            Command::ShowParameter(parameter) => {
                let text = shown(parameter, &self.settings);
                self.say(&text);
            }
        }
        Outcome::Next
    }

    fn say(&mut self, text: &str) {
        self.output.information(text, &self.settings);
    }

    fn begin(&mut self, now: Instant, order: Order) -> Outcome {
        if self.has_call() {
            return Outcome::With(ResultCode::Error);
        }
        self.connect(now, order);
        Outcome::Later
    }

    fn hang_up(&mut self) {
        if self.has_call() {
            self.order(Order::HangUp);
            self.phase = Phase::Commands { held: None };
        }
    }

    /// Executes `O`, which answers with CONNECT, or NO CARRIER if there is no call (V.250 §6.3.7).
    fn back_online(&mut self, now: Instant) -> Outcome {
        match self.phase {
            Phase::Commands { held: Some(call) } => {
                self.go_online(now, call);
                Outcome::Later
            }
            _ => Outcome::With(ResultCode::NoCarrier),
        }
    }
}

fn shown(parameter: Parameter, settings: &Settings) -> String {
    match parameter {
        Parameter::Modulation => {
            format!("+MS: {},{}", settings.modulation.name(), u8::from(settings.automode))
        }
        Parameter::Errors => {
            let [request, originator, answerer] = settings.errors.numbers();
            format!("+ES: {request},{originator},{answerer}")
        }
        Parameter::Compression => {
            let selection = settings.compression;
            format!("+DS: {},{}", selection.direction(), u8::from(selection.required))
        }
        Parameter::ReportCompression => {
            format!("+DR: {}", u8::from(settings.report_compression))
        }
        Parameter::ReportErrors => format!("+ER: {}", u8::from(settings.report_errors)),
        Parameter::ReportModulation => format!("+MR: {}", u8::from(settings.report_modulation)),
    }
}
