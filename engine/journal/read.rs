//! Lists runs and reads their entries.

use std::borrow::Cow;
use std::sync::Arc;

use anyhow::{Result, bail};
use rusqlite::{OptionalExtension, params};

use super::link::{digest, link, seed};
use super::trouble::explain;
use super::{Cursor, Entry, Filter, Found, Journal, NewRun, Row, Run, Trouble};

/// How many ids [`Found::Several`] has, at most.
const SEVERAL: usize = 10;

impl Journal {
    /// The run of an id.
    pub fn run(&self, id: &str) -> Result<Option<Run>> {
        let read = || {
            self.connection
                .prepare_cached(
                    "SELECT id, workflow, status, started_at_ms, ended_at_ms FROM runs WHERE id = ?1",
                )?
                .query_row([id], run)
                .optional()
        };
        explain(&self.store, read())
    }

    /// Lists runs, the newest first.
    pub fn runs(&self, filter: &Filter) -> Result<Vec<Run>> {
        let read = || {
            self.connection
                .prepare_cached(
                    "SELECT id, workflow, status, started_at_ms, ended_at_ms FROM runs
                     WHERE status = coalesce(?1, status) AND workflow = coalesce(?2, workflow)
                     ORDER BY started_at_ms DESC, key DESC LIMIT ?3",
                )?
                .query_map(params![filter.status, filter.workflow, filter.limit], run)?
                .collect::<rusqlite::Result<Vec<Run>>>()
        };
        explain(&self.store, read())
    }

    /// Looks up the run whose id is `prefix`, or else the runs whose ids begin with it.
    pub fn find(&self, prefix: &str) -> Result<Found> {
        if let Some(run) = self.run(prefix)? {
            return Ok(Found::One(run));
        }
        let read = || {
            // those that begin with it are the first ones that are not before it
            self.connection
                .prepare_cached("SELECT id FROM runs WHERE id >= ?1 ORDER BY id LIMIT ?2")?
                .query_map(params![prefix, SEVERAL as i64], |row| row.get(0))?
                .collect::<rusqlite::Result<Vec<String>>>()
        };
        let mut ids = explain(&self.store, read())?;
        ids.retain(|id| id.starts_with(prefix));
        Ok(match ids.as_slice() {
            [] => Found::None,
            [id] => self.run(id)?.map_or(Found::None, Found::One),
            _ => Found::Several(ids),
        })
    }

    /// The ids of the runs that ended before a time, the one that ended first in front.
    pub fn removable(&self, ended_before_ms: i64) -> Result<Vec<String>> {
        let read = || {
            self.connection
                .prepare_cached(
                    "SELECT id FROM runs WHERE ended_at_ms < ?1 ORDER BY ended_at_ms, key",
                )?
                .query_map([ended_before_ms], |row| row.get(0))?
                .collect::<rusqlite::Result<Vec<String>>>()
        };
        explain(&self.store, read())
    }

    /// What a run was started with.
    pub fn header(&self, id: &str) -> Result<String> {
        let read = || {
            self.connection
                .prepare_cached(
                    "SELECT workflow, started_at_ms, header, link FROM runs WHERE id = ?1",
                )?
                .query_row([id], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
                })
                .optional()
        };
        let found: Option<(String, i64, String, i64)> = explain(&self.store, read())?;
        let Some((workflow, started_at_ms, header, link)) = found else {
            return Err(no_run(id));
        };
        let run = NewRun {
            id,
            workflow: &workflow,
            started_at_ms,
            header: &header,
        };
        match seed(&run) == link {
            true => Ok(header),
            false => Err(self.damaged(format!("run `{id}` is not as it was begun"))),
        }
    }

    /// The place in a run that is after an entry; before the first one, if `seq` is 0.
    pub fn cursor(&self, run: &str, seq: u64) -> Result<Cursor> {
        let read = || {
            self.connection
                .prepare_cached("SELECT key, link FROM runs WHERE id = ?1")?
                .query_row([run], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()
        };
        let found: Option<(i64, i64)> = explain(&self.store, read())?;
        let Some((key, start)) = found else {
            return Err(no_run(run));
        };
        let read = || {
            self.connection
                .prepare_cached("SELECT link FROM entries WHERE run = ?1 AND seq = ?2")?
                .query_row(params![key, seq.cast_signed()], |row| row.get(0))
                .optional()
        };
        let link = match seq {
            0 => start,
            _ => match explain(&self.store, read())? {
                Some(link) => link,
                None => bail!("run `{run}` has no entry {seq}"),
            },
        };
        Ok(Cursor {
            run: Arc::from(run),
            key,
            seq,
            link,
        })
    }

    /// The last entry of a run. It is not looked whether it is as it was written.
    pub fn last(&self, run: &str) -> Result<Option<(String, String)>> {
        let read = || {
            self.connection
                .prepare_cached(
                    "SELECT kind, data FROM entries JOIN runs ON runs.key = run
                     WHERE runs.id = ?1 ORDER BY seq DESC LIMIT 1",
                )?
                .query_row([run], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()
        };
        explain(&self.store, read())
    }

    /// The newest output of the work that `key` stands for, and the run it is of.
    pub fn equal_work(&self, key: &str) -> Result<Option<(String, Arc<str>)>> {
        let find = || {
            self.connection
                .prepare_cached(
                    "SELECT runs.id, seq FROM entries JOIN runs ON runs.key = run
                     WHERE kind = 'accepted' AND data ->> 'key' = ?1 AND data ->> 'key' IS NOT NULL
                     ORDER BY run DESC, seq DESC LIMIT 1",
                )?
                .query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()
        };
        let found: Option<(String, i64)> = explain(&self.store, find())?;
        let Some((run, seq)) = found else {
            return Ok(None);
        };
        let mut body = None;
        let mut cursor = self.cursor(&run, seq.cast_unsigned().saturating_sub(1))?;
        self.read_some(&mut cursor, 1, &mut |row| {
            body = row.entry.body;
            Ok(())
        })?;
        Ok(body.map(|it| (run, it)))
    }

    /// Hands the entries after the cursor to `each`, in order, as they are in the store at this moment.
    ///
    /// The cursor moves along, over those that `each` took. After all of them it is where [`Journal::append`] goes on.
    /// An error of `each` ends the reading and is passed on. A run that was removed has no entries.
    pub fn read(&self, cursor: &mut Cursor, each: &mut dyn FnMut(Row) -> Result<()>) -> Result<()> {
        self.read_some(cursor, i64::MAX, each)
    }

    /// The same, of the first `limit` of them.
    fn read_some(
        &self,
        cursor: &mut Cursor,
        limit: i64,
        each: &mut dyn FnMut(Row) -> Result<()>,
    ) -> Result<()> {
        let statement = self.connection.prepare_cached(
            "SELECT seq, at_ms, kind, batch, task, attempt, data, coalesce(body, texts.text), link
             FROM entries LEFT JOIN texts ON texts.key = entries.text
             WHERE run = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
        );
        let mut statement = explain(&self.store, statement)?;
        let rows = statement.query(params![cursor.key, cursor.seq.cast_signed(), limit]);
        let rows = explain(&self.store, rows)?.mapped(entry);
        for next in rows {
            let (seq, entry, written) = explain(&self.store, next)?;
            let seq_due = cursor.seq + 1;
            let hash = entry.body.as_deref().map(digest);
            let link = link(cursor.link, &entry, hash.as_ref());
            if seq.cast_unsigned() != seq_due || link != written {
                let run = &cursor.run;
                return Err(self.damaged(format!(
                    "entry {seq_due} of run `{run}` is missing, or not as it was written"
                )));
            }
            each(Row {
                seq: seq_due,
                entry,
            })?;
            cursor.seq = seq_due;
            cursor.link = link;
        }
        Ok(())
    }

    fn damaged(&self, how: String) -> anyhow::Error {
        let store = self.store.clone();
        Trouble::Damaged { store, how }.into()
    }
}

fn no_run(id: &str) -> anyhow::Error {
    Trouble::NoRun { run: id.to_owned() }.into()
}

fn run(row: &rusqlite::Row) -> rusqlite::Result<Run> {
    Ok(Run {
        id: row.get(0)?,
        workflow: row.get(1)?,
        status: row.get(2)?,
        started_at_ms: row.get(3)?,
        ended_at_ms: row.get(4)?,
    })
}

/// The entry's number, the entry and its link.
fn entry(row: &rusqlite::Row) -> rusqlite::Result<(i64, Entry, i64)> {
    let entry = Entry {
        at_ms: row.get(1)?,
        kind: Cow::Owned(row.get(2)?),
        batch: row.get(3)?,
        task: row.get(4)?,
        attempt: row.get(5)?,
        data: row.get(6)?,
        body: row.get(7)?,
    };
    Ok((row.get(0)?, entry, row.get(8)?))
}
