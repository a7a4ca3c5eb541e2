//! Begins runs, appends to them, removes them.
//!
//! **Invariant:** every function is one transaction, and takes the lock before it reads what it relies on.

use std::sync::Arc;

use anyhow::Result;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::link::{digest, link, seed};
use super::trouble::explain;
use super::{Cursor, Entry, Journal, Mark, NewRun, Trouble};

/// Up to how many bytes of a body lie in its entry.
const SHORT: usize = 512;

impl Journal {
    /// Begins a run. The cursor is before its first entry.
    pub fn begin(&mut self, run: &NewRun) -> Result<Cursor> {
        explain(&self.store, insert_run(&mut self.connection, run))
    }

    /// Appends entries at the end of a run, all or none of them, with one sync of the disk.
    ///
    /// The cursor has to be the end of the run, and becomes the new one.
    pub fn append(&mut self, cursor: &mut Cursor, entries: &[Entry]) -> Result<()> {
        let appended = commit(&mut self.connection, cursor, entries, None);
        *cursor = explain(&self.store, appended)?;
        Ok(())
    }

    /// Appends entries as [`Journal::append`] does, but leaves the sync to the next call that makes one: until then a
    /// loss of power may take them, though no end of a process can.
    pub fn append_soon(&mut self, cursor: &mut Cursor, entries: &[Entry]) -> Result<()> {
        let connection = &mut self.connection;
        let appended = connection
            .pragma_update(None, "synchronous", "NORMAL")
            .map_err(anyhow::Error::from)
            .and_then(|()| commit(connection, cursor, entries, None));
        let restored = connection.pragma_update(None, "synchronous", "FULL");
        *cursor = explain(&self.store, appended)?;
        explain(&self.store, restored)
    }

    /// Appends entries, if any, as [`Journal::append`] does, and marks the run in the same moment.
    pub fn append_and_mark(
        &mut self,
        cursor: &mut Cursor,
        entries: &[Entry],
        mark: &Mark,
    ) -> Result<()> {
        let appended = commit(&mut self.connection, cursor, entries, Some(mark));
        *cursor = explain(&self.store, appended)?;
        Ok(())
    }

    /// Removes a run with all that only it names. False if there is no such run.
    ///
    /// A process that writes the run learns of it when it appends the next time.
    pub fn remove(&mut self, run: &str) -> Result<bool> {
        explain(&self.store, delete_run(&mut self.connection, run))
    }

    /// Gives the space that removed runs have left back to the file system.
    pub fn compact(&mut self) -> Result<()> {
        explain(&self.store, give_back(&self.connection))
    }
}

fn insert_run(connection: &mut Connection, run: &NewRun) -> Result<Cursor> {
    let link = seed(run);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let inserted = transaction
        .prepare_cached(
            "INSERT INTO runs (id, workflow, status, started_at_ms, link, header)
             VALUES (?1, ?2, 'running', ?3, ?4, ?5) ON CONFLICT (id) DO NOTHING",
        )?
        .execute(params![
            run.id,
            run.workflow,
            run.started_at_ms,
            link,
            run.header
        ])?;
    if inserted == 0 {
        return Err(Trouble::Taken {
            run: run.id.to_owned(),
        }
        .into());
    }
    let key = transaction.last_insert_rowid();
    transaction.commit()?;
    Ok(Cursor {
        run: Arc::from(run.id),
        key,
        seq: 0,
        link,
    })
}

fn commit(
    connection: &mut Connection,
    cursor: &Cursor,
    entries: &[Entry],
    mark: Option<&Mark>,
) -> Result<Cursor> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    check_end(&transaction, cursor)?;
    let mut end = cursor.clone();
    for entry in entries {
        insert_entry(&transaction, &mut end, entry)?;
    }
    if let Some(mark) = mark {
        transaction
            .prepare_cached("UPDATE runs SET status = ?2, ended_at_ms = ?3 WHERE key = ?1")?
            .execute(params![cursor.key, mark.status, mark.ended_at_ms])?;
    }
    transaction.commit()?;
    Ok(end)
}

/// The key of entries would let two writers clash as well, but not if one of them only marks.
fn check_end(transaction: &Transaction, cursor: &Cursor) -> Result<()> {
    let run = || cursor.run.to_string();
    let start: i64 = transaction
        .prepare_cached("SELECT link FROM runs WHERE key = ?1")?
        .query_row([cursor.key], |row| row.get(0))
        .optional()?
        .ok_or_else(|| Trouble::NoRun { run: run() })?;
    let end: Option<(i64, i64)> = transaction
        .prepare_cached("SELECT seq, link FROM entries WHERE run = ?1 ORDER BY seq DESC LIMIT 1")?
        .query_row([cursor.key], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match end.unwrap_or((0, start)) == (cursor.seq.cast_signed(), cursor.link) {
        true => Ok(()),
        false => Err(Trouble::Clash { run: run() }.into()),
    }
}

fn insert_entry(transaction: &Transaction, end: &mut Cursor, entry: &Entry) -> Result<()> {
    let hash = entry.body.as_deref().map(digest);
    end.seq += 1;
    end.link = link(end.link, entry, hash.as_ref());
    let (short, long) = match (entry.body.as_deref(), hash) {
        (Some(body), Some(hash)) if body.len() > SHORT => {
            (None, Some(keep_text(transaction, body, &hash)?))
        }
        (body, _) => (body, None),
    };
    transaction
        .prepare_cached(
            "INSERT INTO entries (run, seq, at_ms, kind, batch, task, attempt, link, text, body, data)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .execute(params![
            end.key,
            end.seq.cast_signed(),
            entry.at_ms,
            entry.kind,
            entry.batch.as_deref(),
            entry.task,
            entry.attempt,
            end.link,
            long,
            short,
            entry.data,
        ])?;
    Ok(())
}

fn keep_text(transaction: &Transaction, text: &str, hash: &[u8; 32]) -> Result<i64> {
    let known = transaction
        .prepare_cached("SELECT key FROM texts WHERE hash = ?1")?
        .query_row([hash], |row| row.get(0))
        .optional()?;
    if let Some(key) = known {
        return Ok(key);
    }
    let key = transaction
        .prepare_cached("INSERT INTO texts (hash, text) VALUES (?1, ?2)")?
        .insert(params![hash, text])?;
    Ok(key)
}

fn delete_run(connection: &mut Connection, run: &str) -> Result<bool> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let key: Option<i64> = transaction
        .prepare_cached("SELECT key FROM runs WHERE id = ?1")?
        .query_row([run], |row| row.get(0))
        .optional()?;
    let Some(key) = key else {
        return Ok(false);
    };
    let texts: Vec<i64> = transaction
        .prepare_cached("SELECT DISTINCT text FROM entries WHERE run = ?1 AND text IS NOT NULL")?
        .query_map([key], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    transaction.execute("DELETE FROM entries WHERE run = ?1", [key])?;
    transaction.execute("DELETE FROM runs WHERE key = ?1", [key])?;
    for text in texts {
        transaction
            .prepare_cached(
                "DELETE FROM texts WHERE key = ?1 AND NOT EXISTS (SELECT 1 FROM entries WHERE text = ?1)",
            )?
            .execute([text])?;
    }
    transaction.commit()?;
    Ok(true)
}

fn give_back(connection: &Connection) -> rusqlite::Result<()> {
    for sql in ["PRAGMA incremental_vacuum", "PRAGMA wal_checkpoint"] {
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        // a page is given back with each row that is asked for
        while rows.next()?.is_some() {}
    }
    Ok(())
}
