//! `punctual admit`: does this contract fit on this host?

mod json;
mod text;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use punctual_model::{Contract, HostProfile};

use crate::exit::{Exit, Failure, Outcome};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  punctual admit video.toml
      every task with its proven response time, or what does not fit and what would
  generate-contract | punctual admit --json -
      the same for a program, with the contract from standard input

Exit codes: 0 admitted, 1 refused, 2 bad usage or bad contract.";

/// The longest contract that is read: far more than its 4096 entries need.
const MAX_BYTES: u64 = 8 << 20;

/// Says whether a contract fits on this host, with the numbers and, if not, a counter-offer.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The contract, a TOML file; "-" reads standard input.
    contract: PathBuf,

    /// Print JSON, times in nanoseconds.
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: &Args) -> Outcome {
    let (name, bytes) = read(&args.contract)?;
    let contract = Contract::parse(&name, &bytes).map_err(Failure::bad_input)?;
    let answer = punctual_analysis::admit(&contract, &this_host());
    let page =
        if args.json { json::page(&contract, &answer) } else { text::page(&contract, &answer) };
    output::print(&page)?;
    Ok(if answer.is_ok() { Exit::Kept } else { Exit::Refused })
}

/// This host with switches that cost nothing, until a measured profile says what they cost.
fn this_host() -> HostProfile {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    HostProfile::ideal(u16::try_from(cpus).unwrap_or(u16::MAX))
}

/// The name for messages, and the bytes.
fn read(path: &Path) -> Result<(String, Vec<u8>), Failure> {
    let (name, bytes) = if path == Path::new("-") {
        ("standard input".to_owned(), read_bounded(io::stdin().lock()))
    } else {
        (path.display().to_string(), File::open(path).and_then(read_bounded))
    };
    let bytes = bytes.map_err(|error| {
        Failure::bad_input(format!("{name}: cannot read the contract: {error}"))
    })?;
    if bytes.len() as u64 > MAX_BYTES {
        let most = MAX_BYTES >> 20;
        return Err(Failure::bad_input(format!(
            "{name}: longer than the {most} MiB that a contract may have"
        )));
    }
    Ok((name, bytes))
}

/// One byte more than allowed at most, so that an endless file ends.
fn read_bounded(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
