//! Several operations in one request (`MultiOperationRecord`, `MultiResponse`).

use crate::{
    connection::Request,
    jute::{Malformed, Reader, Writer},
    prepare::{Asker, Plan},
    requests::{Write, code, kind},
    state::State,
    writes::Done,
};

/// Reads operations up to the end marker.
fn operations<T>(
    body: &mut Reader<'_>,
    mut each: impl FnMut(i32, &mut Reader<'_>) -> Result<T, Malformed>,
) -> Result<Vec<T>, i32> {
    let mut all = Vec::new();
    let mut next = || {
        let (kind, done, _error) = (body.int()?, body.flag()?, body.int()?);
        if done { Ok(None) } else { each(kind, body).map(Some) }
    };
    while let Some(operation) = next().map_err(|Malformed| code::MARSHALLING_ERROR)? {
        all.push(operation);
    }
    Ok(all)
}

/// An operation of a transaction.
fn operation(kind: i32, body: &mut Reader<'_>) -> Result<Write, Malformed> {
    let write = Write::read(kind, body)?.ok_or(Malformed)?;
    match write {
        // Rights cannot be changed in a transaction, and invalid flags fail while they are read.
        Write::SetAcl { .. } => Err(Malformed),
        Write::Create { flags, .. } if !(0..=4).contains(&flags) => Err(Malformed),
        // The flags may say it instead of the kind.
        Write::Create { path, data, acls, flags: 4, .. } => {
            Ok(Write::Create { kind: kind::CREATE_CONTAINER, path, data, acls, flags: 4 })
        }
        write => Ok(write),
    }
}

fn begin(results: &mut Writer, kind: i32, error: i32) -> &mut Writer {
    results.int(kind).flag(false).int(error)
}

fn end(mut results: Writer) -> Writer {
    results.int(-1).flag(true).int(-1);
    results
}

fn refused(results: &mut Writer, error: i32) {
    begin(results, kind::ERROR, error).int(error);
}

impl State {
    /// Executes all changes of a transaction, or none.
    pub(crate) fn multi(&mut self, from: u64, request: &mut Request<'_>) -> Result<Writer, i32> {
        self.zxid += 1;
        let writes = operations(&mut request.body, operation)?;
        let asker = Asker { session: self.session(from), users: self.users(from) };
        let mut plan = Plan::new(self);
        let mut changes = Vec::with_capacity(writes.len());
        let mut results = Writer::default();
        for write in &writes {
            match plan.add(asker, write) {
                Ok(change) => changes.push(change),
                Err(error) => {
                    let failed = changes.len();
                    for at in 0..writes.len() {
                        let error = match at {
                            at if at < failed => 0,
                            at if at == failed => error,
                            _ => code::RUNTIME_INCONSISTENCY,
                        };
                        refused(&mut results, error);
                    }
                    return Ok(end(results));
                }
            }
        }
        for (change, write) in changes.into_iter().zip(&writes) {
            match (self.apply(change)?, write) {
                (Done::Created { kind: kind::CREATE, path, .. }, _) => {
                    begin(&mut results, kind::CREATE, 0).text(&path);
                }
                (Done::Created { path, stat, .. }, _) => {
                    begin(&mut results, kind::CREATE2, 0).text(&path);
                    stat.write(&mut results);
                }
                (Done::Stat(stat), _) => {
                    stat.write(begin(&mut results, kind::SET_DATA, 0));
                }
                (Done::Nothing, Write::Delete { .. }) => _ = begin(&mut results, kind::DELETE, 0),
                (Done::Nothing, _) => _ = begin(&mut results, kind::CHECK, 0),
            }
        }
        Ok(end(results))
    }

    /// Reads several nodes: each read has its own result.
    pub(crate) fn multi_read(
        &mut self,
        from: u64,
        request: &mut Request<'_>,
    ) -> Result<Writer, i32> {
        let reads = operations(&mut request.body, |kind, body| match kind {
            kind::GET_DATA | kind::GET_CHILDREN => {
                // It never sets a watch, whatever the flag.
                let (path, _watch) = (body.text()?, body.flag()?);
                Ok((kind, path))
            }
            _ => Err(Malformed),
        })?;
        let mut results = Writer::default();
        for (kind, path) in reads {
            let read = match kind {
                kind::GET_DATA => self.data(from, &path, false),
                _ => self.children(from, &path, false).map(|(children, _)| children),
            };
            match read {
                Ok(read) => _ = begin(&mut results, kind, 0).append(&read),
                Err(error) => refused(&mut results, error),
            }
        }
        Ok(end(results))
    }
}
