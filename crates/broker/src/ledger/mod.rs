//! The ledger: the state that survives the broker's death, with every grant written before its
//! holder is told.
//!
//! The ledger is an SQLite database: a transaction is complete or absent, also when the broker is
//! killed in the middle of it, or the file system is full. It lies in `/run`, in memory: grants are
//! promises to processes, and end with the boot as those do; so a transaction waits for no disk. A
//! ledger of another boot is emptied.
//!
//! The order of steps makes every crash harmless: a grant is entered *before* the kernel puts it in
//! force, and struck out *after* the kernel has taken it back. A grant in the ledger may not be in
//! force, but no grant is in force that is not in the ledger.

mod file;
mod record;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::FromSql;
use rusqlite::{Connection, OptionalExtension as _, Params, Transaction};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use file::LedgerError;
pub(crate) use record::since_1970;
pub use record::{ChannelRecord, OldLimits, ProcessId, Record};

use punctual_client::grant::GrantId;
use punctual_client::wire::RefusedStatus;

/// The tables. Records are JSON.
///
/// The broker alone has the file, so it locks it once, and needs no index in memory that is shared
/// with others. Commits go to the write-ahead log without waiting for a disk; only when the log is
/// copied into the database a disk is waited for, so that a power failure leaves a database.
const BEGIN: &str = "
    PRAGMA locking_mode = EXCLUSIVE;
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = NORMAL;
    PRAGMA temp_store = MEMORY;
    BEGIN IMMEDIATE;
    CREATE TABLE IF NOT EXISTS grants (id INTEGER PRIMARY KEY, record TEXT NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS channels (id INTEGER PRIMARY KEY, record TEXT NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS refusals (id INTEGER PRIMARY KEY, record TEXT NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
    COMMIT;
";

/// The keys of the table `meta`: the boot to which everything belongs, the first number of a grant
/// that is not set aside, and the guards.
const BOOT: &str = "boot";
const NEXT: &str = "next";
const GUARDS: &str = "guards";

/// The number of refusals that are kept.
pub const MAX_REFUSALS: u64 = 256;

/// The open ledger. One process at a time can hold it.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    database: Connection,
    next: u64,
    next_refusal: u64,
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
        let path = folder.join("ledger.sqlite");
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let opened = Connection::open(&path).and_then(|database| {
            // Another broker has it for as long as it lives.
            database.busy_timeout(Duration::ZERO)?;
            database.execute_batch(BEGIN)?;
            let (next, next_refusal) = begin(&database, boot.trim())?;
            Ok((database, next, next_refusal))
        });
        let (database, next, next_refusal) = match opened {
            Ok(opened) => opened,
            Err(source) => return Err(LedgerError::Database { path, source }),
        };
        let ledger = Self { path, database, next, next_refusal };
        let records = ledger.records("SELECT id, record FROM grants ORDER BY id")?;
        Ok((ledger, records))
    }

    /// Returns the number of the next grant, each only once.
    pub fn next_id(&mut self) -> Result<GrantId, LedgerError> {
        let id = self.next;
        if id.is_multiple_of(AHEAD) {
            // From the next start on, numbers begin beyond these.
            self.write(|write| set(write, NEXT, &(id + AHEAD).to_string()))?;
        }
        self.next += 1;
        Ok(GrantId(id))
    }

    /// Enters a grant, or replaces it. When this returns it is there after any crash.
    pub fn enter(&self, record: &Record) -> Result<(), LedgerError> {
        self.write(|write| enter(write, record))
    }

    /// Strikes grants and channels out.
    pub fn strike(&self, ids: &[GrantId]) -> Result<(), LedgerError> {
        self.strike_and_keep(ids, &[])
    }

    /// Strikes grants and channels out, and enters the residuals of others in their place, in one
    /// transaction.
    pub fn strike_and_keep(&self, ids: &[GrantId], left: &[Record]) -> Result<(), LedgerError> {
        self.write(|write| {
            for id in ids {
                change(write, "DELETE FROM grants WHERE id = ?", [id.0])?;
                change(write, "DELETE FROM channels WHERE id = ?", [id.0])?;
            }
            left.iter().try_for_each(|record| enter(write, record))
        })
    }

    /// Enters a channel, or replaces it.
    pub fn enter_channel(&self, record: &ChannelRecord) -> Result<(), LedgerError> {
        let entry = (record.id.0, json(record));
        self.write(|write| change(write, "REPLACE INTO channels VALUES (?, ?)", entry))
    }

    /// Returns all channels.
    pub fn channels(&self) -> Result<Vec<ChannelRecord>, LedgerError> {
        self.records("SELECT id, record FROM channels ORDER BY id")
    }

    /// Returns the guards that police, or policed, the grants.
    pub fn guards(&self) -> Result<Vec<ProcessId>, LedgerError> {
        let text: Option<String> = self.done(get(&self.database, GUARDS))?;
        // Ignore entries of another version: those guards are not ours to end.
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
    }

    /// Records the guards that police the grants.
    pub fn set_guards(&self, guards: &[ProcessId]) -> Result<(), LedgerError> {
        self.write(|write| set(write, GUARDS, &json(guards)))
    }

    /// Adds refusals, and deletes all but the last [`MAX_REFUSALS`].
    pub fn refused(&mut self, refusals: &[RefusedStatus]) -> Result<(), LedgerError> {
        let (first, end) = (self.next_refusal, self.next_refusal + refusals.len() as u64);
        self.write(|write| {
            for (refusal, at) in refusals.iter().zip(first..) {
                change(write, "INSERT INTO refusals VALUES (?, ?)", (at, json(refusal)))?;
            }
            let kept = end.saturating_sub(MAX_REFUSALS);
            change(write, "DELETE FROM refusals WHERE id < ?", [kept])
        })?;
        self.next_refusal = end;
        Ok(())
    }

    /// Returns the refusals that are kept, the newest first.
    pub fn refusals(&self) -> Result<Vec<RefusedStatus>, LedgerError> {
        let all = self.rows("SELECT id, record FROM refusals ORDER BY id DESC")?;
        // Skip refusals of another version: they are only history.
        Ok(all.iter().filter_map(|(_, record)| serde_json::from_str(record).ok()).collect())
    }

    fn write(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()>,
    ) -> Result<(), LedgerError> {
        let write = || {
            let write = self.database.unchecked_transaction()?;
            change(&write)?;
            write.commit()
        };
        self.done(write())
    }

    fn rows(&self, select: &str) -> Result<Vec<(u64, String)>, LedgerError> {
        let read = || {
            let mut rows = self.database.prepare_cached(select)?;
            rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        self.done(read())
    }

    fn records<T: DeserializeOwned>(&self, select: &str) -> Result<Vec<T>, LedgerError> {
        let parse = |(id, record): (u64, String)| {
            serde_json::from_str(&record).map_err(|why| LedgerError::Unreadable {
                path: self.path.clone(),
                id,
                why: why.to_string(),
            })
        };
        self.rows(select)?.into_iter().map(parse).collect()
    }

    fn done<T>(&self, outcome: rusqlite::Result<T>) -> Result<T, LedgerError> {
        outcome.map_err(|source| LedgerError::Database { path: self.path.clone(), source })
    }
}

fn json<T: Serialize + ?Sized>(value: &T) -> String {
    // Cannot fail: no map with keys that are not text.
    serde_json::to_string(value).unwrap_or_default()
}

fn change(write: &Connection, statement: &str, values: impl Params) -> rusqlite::Result<()> {
    write.prepare_cached(statement)?.execute(values).map(|_| ())
}

fn enter(write: &Connection, record: &Record) -> rusqlite::Result<()> {
    change(write, "REPLACE INTO grants VALUES (?, ?)", (record.id.0, json(record)))
}

fn set(write: &Connection, key: &str, value: &str) -> rusqlite::Result<()> {
    change(write, "REPLACE INTO meta VALUES (?, ?)", (key, value))
}

fn get<T: FromSql>(read: &Connection, key: &str) -> rusqlite::Result<Option<T>> {
    let select = "SELECT value FROM meta WHERE key = ?";
    read.query_row(select, [key], |row| row.get(0)).optional()
}

/// Empties the tables after a boot, and sets numbers aside. Returns the number of the next grant
/// and of the next refusal.
fn begin(database: &Connection, boot: &str) -> rusqlite::Result<(u64, u64)> {
    let write = database.unchecked_transaction()?;
    if get::<String>(&write, BOOT)?.is_none_or(|was| was != boot) {
        write.execute_batch(
            "DELETE FROM grants; DELETE FROM channels; DELETE FROM refusals; DELETE FROM meta;",
        )?;
        set(&write, BOOT, boot)?;
    }
    let after = |select| write.query_row(select, [], |row| row.get::<_, u64>(0));
    let used = after(
        "SELECT max(ifnull((SELECT max(id) FROM grants), 0), ifnull((SELECT max(id) FROM channels), 0))",
    )?;
    let ahead = get::<String>(&write, NEXT)?.and_then(|next| next.parse().ok()).unwrap_or(1);
    let next = ahead.max(used + 1);
    set(&write, NEXT, &next.next_multiple_of(AHEAD).to_string())?;
    let next_refusal = after("SELECT ifnull(max(id) + 1, 0) FROM refusals")?;
    write.commit()?;
    Ok((next, next_refusal))
}
