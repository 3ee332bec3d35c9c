//! Requests that read (`FinalRequestProcessor`).

use crate::{
    acl,
    connection::Request,
    jute::{Malformed, Reader, Writer},
    requests::{code, kind},
    state::State,
    tree::{Node, Stat},
    watches::Mode,
};

/// Reads a path, and `true` if the client watches it.
fn watched(body: &mut Reader<'_>) -> Result<(String, bool), Malformed> {
    Ok((body.text()?, body.flag()?))
}

impl State {
    pub(crate) fn read(&mut self, from: u64, request: &mut Request<'_>) -> Result<Writer, i32> {
        let body = &mut request.body;
        let malformed = |Malformed| code::MARSHALLING_ERROR;
        match request.kind {
            kind::EXISTS => {
                let (path, watch) = watched(body).map_err(malformed)?;
                self.exists(from, &path, watch)
            }
            kind::GET_DATA => {
                let (path, watch) = watched(body).map_err(malformed)?;
                self.data(from, &path, watch)
            }
            kind::GET_CHILDREN | kind::GET_CHILDREN2 => {
                let (path, watch) = watched(body).map_err(malformed)?;
                let (mut children, stat) = self.children(from, &path, watch)?;
                if request.kind == kind::GET_CHILDREN2 {
                    stat.write(&mut children);
                }
                Ok(children)
            }
            kind::GET_ACL => self.acls(from, &body.text().map_err(malformed)?),
            kind::SYNC => {
                let mut reply = Writer::default();
                reply.text(&body.text().map_err(malformed)?);
                Ok(reply)
            }
            kind::GET_ALL_CHILDREN_NUMBER => {
                let path = body.text().map_err(malformed)?;
                self.readable(from, &path, acl::READ)?;
                let mut reply = Writer::default();
                reply.count(self.tree.below(&path));
                Ok(reply)
            }
            _ => {
                let prefix = body.text().map_err(malformed)?;
                let mut own = self.tree.ephemerals_of(self.session(from));
                if !matches!(prefix.trim(), "" | "/") {
                    own.retain(|path| path.starts_with(&prefix));
                }
                let mut reply = Writer::default();
                reply.texts(own.iter().map(String::as_str));
                Ok(reply)
            }
        }
    }

    /// Returns a node on which the connection has one of these rights.
    fn readable(&self, from: u64, path: &str, rights: i32) -> Result<&Node, i32> {
        let node = self.tree.get(path).ok_or(code::NO_NODE)?;
        acl::check(&node.acls, rights, self.users(from)).map(|()| node)
    }

    /// A missing node can also be watched, for its creation.
    fn exists(&mut self, from: u64, path: &str, watch: bool) -> Result<Writer, i32> {
        if path.contains('\0') {
            return Err(code::BAD_ARGUMENTS);
        }
        if self.tree.get(path).is_some() {
            self.readable(from, path, acl::READ)?;
        }
        if watch {
            self.data_watches.add(path, from, Mode::Standard);
        }
        let node = self.tree.get(path).ok_or(code::NO_NODE)?;
        let mut reply = Writer::default();
        node.stat().write(&mut reply);
        Ok(reply)
    }

    pub(crate) fn data(&mut self, from: u64, path: &str, watch: bool) -> Result<Writer, i32> {
        let node = self.readable(from, path, acl::READ)?;
        let mut reply = Writer::default();
        reply.buffer(node.data.as_deref());
        node.stat().write(&mut reply);
        if watch {
            self.data_watches.add(path, from, Mode::Standard);
        }
        Ok(reply)
    }

    pub(crate) fn children(
        &mut self,
        from: u64,
        path: &str,
        watch: bool,
    ) -> Result<(Writer, Stat), i32> {
        let node = self.readable(from, path, acl::READ)?;
        let (mut reply, stat) = (Writer::default(), node.stat());
        reply.texts(node.children.iter().map(String::as_str));
        if watch {
            self.child_watches.add(path, from, Mode::Standard);
        }
        Ok((reply, stat))
    }

    fn acls(&self, from: u64, path: &str) -> Result<Writer, i32> {
        let node = self.readable(from, path, acl::READ | acl::ADMIN)?;
        let acls = match acl::permits(&node.acls, acl::ADMIN, self.users(from)) {
            true => node.acls.clone(),
            false => acl::veiled(&node.acls),
        };
        let mut reply = Writer::default();
        reply.count(acls.len());
        acls.iter().for_each(|acl| acl.write(&mut reply));
        node.stat().write(&mut reply);
        Ok(reply)
    }
}
