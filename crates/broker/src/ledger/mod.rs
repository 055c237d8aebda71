//! The ledger: the state that survives the broker's death, with every grant written before its
//! holder is told.
//!
//! The ledger is a `redb` database: a commit is complete or absent, also when the broker is killed
//! in the middle of it. It lies in `/run`, in memory: grants are promises to processes, and end
//! with the boot as those do; so a commit waits for no disk. A ledger of another boot is emptied.
//!
//! The order of steps makes every crash harmless: a grant is entered *before* the kernel puts it in
//! force, and struck out *after* the kernel has taken it back. A grant in the ledger may not be in
//! force, but no grant is in force that is not in the ledger.

mod file;
mod record;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use redb::{Database, ReadableTable as _, TableDefinition};

pub use file::LedgerError;
use file::Reserved;
pub(crate) use record::since_1970;
pub use record::{ChannelRecord, OldLimits, ProcessId, Record};

use punctual_client::grant::GrantId;
use punctual_client::wire::RefusedStatus;

const GRANTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("grants");
const CHANNELS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("channels");
const REFUSALS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("refusals");
const META: TableDefinition<'_, &str, &str> = TableDefinition::new("meta");

/// The key of the guards in the table of everything else.
const GUARDS: &str = "guards";

/// The number of refusals that are kept.
pub const MAX_REFUSALS: u64 = 256;

/// The open ledger. One process at a time can hold it.
pub struct Ledger {
    path: PathBuf,
    /// The file of the database: a broker that has given up its privilege may not open the path
    /// again.
    file: File,
    /// `None` once the file could not be written or read: it is reopened at the next use.
    database: RefCell<Option<Database>>,
    next: u64,
    next_refusal: u64,
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The number of grant ids that are set aside at a time, so that none is given twice after a crash.
const AHEAD: u64 = 1 << 10;

impl Ledger {
    /// Opens the ledger in `folder`, which is made if it is not there, and reads all its grants.
    ///
    /// A user that could write there could write itself a grant: so the folder must be this user's,
    /// must not be a link, and no other user may write it.
    pub fn open(folder: &Path) -> Result<(Self, Vec<Record>), LedgerError> {
        file::private(folder)?;
        let path = folder.join("ledger.redb");
        let failed =
            |Failure(source): Failure| LedgerError::Database { path: path.clone(), source };
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(|source| LedgerError::File { path: path.clone(), source })?;
        let database = open_in(&file).map_err(failed)?;
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let (grants, next, next_refusal) = begin(&database, boot.trim()).map_err(failed)?;
        let mut records = Vec::with_capacity(grants.len());
        for (id, bytes) in grants {
            let record = serde_json::from_slice(&bytes).map_err(|why| LedgerError::Unreadable {
                path: path.clone(),
                id,
                why: why.to_string(),
            })?;
            records.push(record);
        }
        let database = RefCell::new(Some(database));
        Ok((Self { path, file, database, next, next_refusal }, records))
    }

    /// Returns the number of the next grant, each only once.
    pub fn next_id(&mut self) -> Result<GrantId, LedgerError> {
        let id = self.next;
        if id.is_multiple_of(AHEAD) {
            // From the next start on, numbers begin beyond these.
            let ahead = (id + AHEAD).to_string();
            self.commit(|write| {
                write.open_table(META)?.insert("next", ahead.as_str())?;
                Ok(())
            })?;
        }
        self.next += 1;
        Ok(GrantId(id))
    }

    /// Enters a grant, or replaces it. When this returns it is there after any crash.
    pub fn enter(&self, record: &Record) -> Result<(), LedgerError> {
        // Cannot fail: no map with keys that are not text.
        let bytes = serde_json::to_vec(record).unwrap_or_default();
        self.commit(|write| {
            write.open_table(GRANTS)?.insert(record.id.0, bytes.as_slice())?;
            Ok(())
        })
    }

    /// Strikes grants and channels out.
    pub fn strike(&self, ids: &[GrantId]) -> Result<(), LedgerError> {
        self.strike_and_keep(ids, &[])
    }

    /// Strikes grants and channels out, and enters the residuals of others in their place, in one
    /// transaction.
    pub fn strike_and_keep(&self, ids: &[GrantId], left: &[Record]) -> Result<(), LedgerError> {
        self.commit(|write| {
            let mut grants = write.open_table(GRANTS)?;
            let mut channels = write.open_table(CHANNELS)?;
            for id in ids {
                grants.remove(id.0)?;
                channels.remove(id.0)?;
            }
            for record in left {
                // Cannot fail: no map with keys that are not text.
                let bytes = serde_json::to_vec(record).unwrap_or_default();
                grants.insert(record.id.0, bytes.as_slice())?;
            }
            Ok(())
        })
    }

    /// Enters a channel, or replaces it.
    pub fn enter_channel(&self, record: &ChannelRecord) -> Result<(), LedgerError> {
        let bytes = serde_json::to_vec(record).unwrap_or_default();
        self.commit(|write| {
            write.open_table(CHANNELS)?.insert(record.id.0, bytes.as_slice())?;
            Ok(())
        })
    }

    /// Returns all channels.
    pub fn channels(&self) -> Result<Vec<ChannelRecord>, LedgerError> {
        let read = |database: &Database| -> Result<Vec<(u64, Vec<u8>)>, Failure> {
            let table = database.begin_read()?.open_table(CHANNELS)?;
            let mut all = Vec::new();
            for entry in table.iter()? {
                let (id, bytes) = entry?;
                all.push((id.value(), bytes.value().to_vec()));
            }
            Ok(all)
        };
        let all = self.with(read)?;
        all.into_iter()
            .map(|(id, bytes)| {
                serde_json::from_slice(&bytes).map_err(|why| LedgerError::Unreadable {
                    path: self.path.clone(),
                    id,
                    why: why.to_string(),
                })
            })
            .collect()
    }

    /// Returns the guards that police, or policed, the grants.
    pub fn guards(&self) -> Result<Vec<ProcessId>, LedgerError> {
        let read = |database: &Database| -> Result<Option<String>, Failure> {
            let table = database.begin_read()?.open_table(META)?;
            Ok(table.get(GUARDS)?.map(|text| text.value().to_owned()))
        };
        let text = self.with(read)?;
        // Ignore entries of another version: those guards are not ours to end.
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
    }

    /// Records the guards that police the grants.
    pub fn set_guards(&self, guards: &[ProcessId]) -> Result<(), LedgerError> {
        let text = serde_json::to_string(guards).unwrap_or_default();
        self.commit(|write| {
            write.open_table(META)?.insert(GUARDS, text.as_str())?;
            Ok(())
        })
    }

    /// Adds refusals, and deletes all but the last [`MAX_REFUSALS`].
    pub fn refused(&mut self, refusals: &[RefusedStatus]) -> Result<(), LedgerError> {
        let first = self.next_refusal;
        self.commit(|write| {
            let mut table = write.open_table(REFUSALS)?;
            for (refusal, at) in refusals.iter().zip(first..) {
                let bytes = serde_json::to_vec(refusal).unwrap_or_default();
                table.insert(at, bytes.as_slice())?;
            }
            let end = first + refusals.len() as u64;
            table.retain_in(..end.saturating_sub(MAX_REFUSALS), |_, _| false)?;
            Ok(())
        })?;
        self.next_refusal += refusals.len() as u64;
        Ok(())
    }

    /// Returns the refusals that are kept, the newest first.
    pub fn refusals(&self) -> Result<Vec<RefusedStatus>, LedgerError> {
        let read = |database: &Database| -> Result<Vec<RefusedStatus>, Failure> {
            let table = database.begin_read()?.open_table(REFUSALS)?;
            let mut all = Vec::new();
            for entry in table.iter()?.rev() {
                // Skip refusals of another version: they are only history.
                all.extend(serde_json::from_slice::<RefusedStatus>(entry?.1.value()).ok());
            }
            Ok(all)
        };
        self.with(read)
    }

    fn commit(
        &self,
        change: impl FnOnce(&redb::WriteTransaction) -> Result<(), Failure>,
    ) -> Result<(), LedgerError> {
        self.with(|database| {
            let write = database.begin_write()?;
            change(&write)?;
            write.commit()?;
            Ok(())
        })
    }

    /// Acts on the database. If it could not write or read its file, for example on a full disk, it
    /// refuses everything until it is opened again: so it is closed then, and the next call opens
    /// it.
    fn with<T>(&self, act: impl FnOnce(&Database) -> Result<T, Failure>) -> Result<T, LedgerError> {
        let mut open = self.database.borrow_mut();
        let database = match open.take() {
            Some(database) => Ok(database),
            None => open_in(&self.file),
        };
        let outcome = database.and_then(|database| {
            let outcome = act(&database);
            if !outcome.as_ref().is_err_and(Failure::is_of_the_file) {
                *open = Some(database);
            }
            outcome
        });
        outcome.map_err(|Failure(source)| LedgerError::Database { path: self.path.clone(), source })
    }
}

/// Any of the database's errors, boxed to the size of a pointer.
struct Failure(Box<redb::Error>);

impl Failure {
    fn is_of_the_file(&self) -> bool {
        matches!(*self.0, redb::Error::Io(_) | redb::Error::PreviousIo)
    }
}

impl<E: Into<redb::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(Box::new(error.into()))
    }
}

/// Opens the database in a file, as its last commit left it.
fn open_in(file: &File) -> Result<Database, Failure> {
    Ok(Database::builder().create_with_backend(Reserved::new(file)?)?)
}

type Begun = (Vec<(u64, Vec<u8>)>, u64, u64);

/// Makes the tables, empties them after a boot, and reads their contents.
fn begin(database: &Database, boot: &str) -> Result<Begun, Failure> {
    let write = database.begin_write()?;
    let (mut grants, mut next, mut next_refusal) = (Vec::new(), 1, 0);
    {
        let mut meta = write.open_table(META)?;
        let same_boot = meta.get("boot")?.is_some_and(|was| was.value() == boot);
        let mut table = write.open_table(GRANTS)?;
        let mut channels = write.open_table(CHANNELS)?;
        let mut refusals = write.open_table(REFUSALS)?;
        if same_boot {
            for entry in table.iter()? {
                let (id, bytes) = entry?;
                grants.push((id.value(), bytes.value().to_vec()));
            }
            next = meta.get("next")?.and_then(|next| next.value().parse().ok()).unwrap_or(1);
            next_refusal = refusals.last()?.map_or(0, |(at, _)| at.value() + 1);
        } else {
            table.retain(|_, _| false)?;
            channels.retain(|_, _| false)?;
            refusals.retain(|_, _| false)?;
            meta.remove(GUARDS)?;
            meta.insert("boot", boot)?;
        }
        let last = grants.last().map_or(0, |(id, _)| *id);
        let last = channels.last()?.map_or(0, |(id, _)| id.value()).max(last);
        next = next.max(last + 1);
        let ahead = next.next_multiple_of(AHEAD).to_string();
        meta.insert("next", ahead.as_str())?;
    }
    write.commit()?;
    Ok((grants, next, next_refusal))
}
