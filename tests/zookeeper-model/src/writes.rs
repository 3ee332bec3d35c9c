//! Requests that write (`FinalRequestProcessor`, `DataTree.processTxn`).

use crate::{
    connection::Request,
    jute::Writer,
    prepare::{Asker, Change, Plan},
    requests::{Write, code, kind},
    state::State,
    tree::Stat,
};

/// The result of a change.
#[derive(Clone, Debug)]
pub(crate) enum Done {
    Created { kind: i32, path: String, stat: Stat },
    Stat(Stat),
    Nothing,
}

impl State {
    /// Serves a request of a live session.
    pub(crate) fn serve(&mut self, from: u64, mut request: Request<'_>) {
        let kind = request.kind;
        let done = match kind {
            kind::PING => Ok(Writer::default()),
            kind::CLOSE_SESSION => {
                self.end_session(self.session(from));
                Ok(Writer::default())
            }
            kind::CREATE
            | kind::CREATE2
            | kind::CREATE_CONTAINER
            | kind::CREATE_TTL
            | kind::DELETE
            | kind::SET_DATA
            | kind::SET_ACL => self.write(from, &mut request),
            kind::MULTI => self.multi(from, &mut request),
            kind::MULTI_READ => self.multi_read(from, &mut request),
            kind::SET_WATCHES
            | kind::SET_WATCHES2
            | kind::ADD_WATCH
            | kind::CHECK_WATCHES
            | kind::REMOVE_WATCHES => self.watch_request(from, &mut request),
            kind::EXISTS
            | kind::GET_DATA
            | kind::GET_ACL
            | kind::GET_CHILDREN
            | kind::GET_CHILDREN2
            | kind::SYNC
            | kind::GET_EPHEMERALS
            | kind::GET_ALL_CHILDREN_NUMBER => self.read(from, &mut request),
            _ => {
                // Unknown requests are refused without a transaction.
                self.send(from, &Writer::reply(request.xid, -1, code::UNIMPLEMENTED));
                return self.hang_up(from);
            }
        };
        // A ping has its own xid.
        let xid = if kind == kind::PING { -2 } else { request.xid };
        let mut reply = Writer::reply(xid, self.zxid, done.as_ref().err().copied().unwrap_or(0));
        done.iter().for_each(|body| _ = reply.append(body));
        self.send(from, &reply);
        if kind == kind::CLOSE_SESSION {
            self.hang_up(from);
        }
    }

    fn write(&mut self, from: u64, request: &mut Request<'_>) -> Result<Writer, i32> {
        let write = Write::read(request.kind, &mut request.body);
        let Ok(Some(write)) = write else { return Err(code::MARSHALLING_ERROR) };
        // A failed write is a transaction, too.
        self.zxid += 1;
        let asker = Asker { session: self.session(from), users: self.users(from) };
        let change = Plan::new(self).add(asker, &write)?;
        let mut body = Writer::default();
        match self.apply(change)? {
            Done::Created { kind, path, stat } => {
                body.text(&path);
                if kind != kind::CREATE {
                    stat.write(&mut body);
                }
            }
            Done::Stat(stat) => stat.write(&mut body),
            Done::Nothing => {}
        }
        Ok(body)
    }

    /// Applies a change that is known to be valid.
    pub(crate) fn apply(&mut self, change: Change) -> Result<Done, i32> {
        match change {
            Change::Create { kind, created } => {
                let stat = self.create(&created).ok_or(code::NO_NODE)?;
                Ok(Done::Created { kind, path: created.path, stat })
            }
            Change::Delete { path } => {
                self.delete(&path);
                Ok(Done::Nothing)
            }
            Change::SetData { path, data, version } => {
                self.set_data(&path, data, version).map(Done::Stat).ok_or(code::NO_NODE)
            }
            Change::SetAcl { path, acls, version } => {
                let node = self.tree.get_mut(&path).ok_or(code::NO_NODE)?;
                node.acls = acls;
                node.stored.aversion = version;
                Ok(Done::Stat(node.stat()))
            }
            Change::Check => Ok(Done::Nothing),
        }
    }
}
