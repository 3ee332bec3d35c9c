//! The keys of version 1, which all namespaces of a server shared.
//!
//! Locks of the two versions would not exclude each other. Before a session begins, these keys are
//! therefore marked as those of version 2, and each script of version 1 then refuses to run. No
//! session begins while a session of version 1 lives. Nothing is granted until all sessions of
//! version 1 that were not removed have certainly ended.

use std::sync::atomic::Ordering;

use redis::{RedisResult, Value, from_redis_value};

use super::{
    batch::Batch,
    call::Call,
    cluster,
    connection::{Connector, HOPS, Link},
    error::refused,
    message::{self, Former},
    script::Keys,
    server::CONNECTING,
};
use crate::backend::{Result, StoreError, sql::replies::nonsense};

/// Reads the state of the keys, and whether the namespace still has to adopt data.
fn read(reply: &[String], endpoint: &str) -> Result<(Former, bool)> {
    let number = |at: usize| reply.get(at).and_then(|number| number.parse().ok());
    match reply.first().map(String::as_str) {
        Some("ok") => {
            let former = number(1).zip(number(2)).map(|(newest, lives)| Former { newest, lives });
            Ok((former.ok_or_else(nonsense)?, reply.get(3).is_some_and(|flag| flag == "1")))
        }
        Some("alive") => Err(StoreError::NotYet(
            format!(
                "a client of an earlier version of distlock, which uses the keys {{distlock}}:*, \
                 has a session on {endpoint}, and cannot see this client's locks: stop that \
                 client; if it was killed, wait until its session has expired"
            )
            .into(),
        )),
        Some("version") => {
            let version = reply.get(1).map(String::as_str).unwrap_or_default();
            let source = message::other_version("{distlock}", version).into();
            Err(StoreError::Fatal { operation: CONNECTING, source })
        }
        _ => Err(nonsense()),
    }
}

impl Connector {
    /// Marks the keys of version 1, and takes over their state for this namespace. This precedes
    /// the client's first session. In a cluster these keys may be on another server.
    pub(super) async fn take_over(&self, link: &mut Link) -> Result<Former> {
        if self.took_over.load(Ordering::Acquire) {
            return Ok(Former::default());
        }
        let mut elsewhere: Option<Link> = None;
        for _ in 0..HOPS {
            let keeper = elsewhere.as_mut().unwrap_or(&mut *link);
            let endpoint = keeper.endpoint.clone();
            let look = ask_former(keeper, &message::former_look(self.namespace())).await;
            let reply = match look {
                Err(moved) if moved.code() == Some("MOVED") => {
                    let address = cluster::address(&endpoint, &moved)?;
                    elsewhere = Some(self.begin_at(&endpoint, &address).await?);
                    continue;
                }
                look => look.map_err(|error| refused(&endpoint, &error))?,
            };
            let reply: Vec<String> = from_redis_value(reply).map_err(|_| nonsense())?;
            let (former, has_data) = read(&reply, &endpoint)?;
            if has_data {
                self.adopt(link, elsewhere.as_mut()).await?;
            }
            return Ok(former);
        }
        Err(StoreError::Unavailable(format!("{} keeps redirecting (MOVED)", link.endpoint).into()))
    }

    /// Copies the data that belongs to no session, which all namespaces shared.
    async fn adopt(&self, link: &mut Link, mut keeper: Option<&mut Link>) -> Result<()> {
        let mut from = Vec::new();
        loop {
            let at = keeper.as_deref_mut().unwrap_or(&mut *link);
            let endpoint = at.endpoint.clone();
            let page = ask_former(at, &message::former_data(self.namespace(), &from)).await;
            let page = page.map_err(|error| refused(&endpoint, &error))?;
            let page: Vec<Vec<u8>> = from_redis_value(page).map_err(|_| nonsense())?;
            // Keys and values alternate.
            let Some(last) = page.len().checked_sub(2).and_then(|at| page.get(at)) else { break };
            from.clone_from(last);
            let endpoint = link.endpoint.clone();
            let adopted = ask(link, self.keys.all(), &message::adopt(&page)).await;
            adopted.map_err(|error| refused(&endpoint, &error))?;
        }
        let at = keeper.unwrap_or(link);
        let endpoint = at.endpoint.clone();
        let marked = ask_former(at, &message::former_adopted(self.namespace())).await;
        marked.map(drop).map_err(|error| refused(&endpoint, &error))
    }
}

async fn ask_former(link: &mut Link, call: &Call) -> RedisResult<Value> {
    ask(link, &Keys::former(), call).await
}

async fn ask(link: &mut Link, keys: &[String], call: &Call) -> RedisResult<Value> {
    let asked = Batch::run_one(call.of_no_session(), link.connection.clone(), keys);
    link.driven(asked).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_snapshot_is_parsed() {
        let read = |words: &[&str]| {
            let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
            read(&words, "h:1")
        };
        let former = Former { newest: 17, lives: 9 };
        assert_eq!(read(&["ok", "17", "9", "1"]).unwrap(), (former, true));
        assert_eq!(read(&["ok", "0", "0", "0"]).unwrap(), (Former::default(), false));
        let refusal = read(&["alive"]).unwrap_err();
        assert!(matches!(&refusal, StoreError::NotYet(_)) && refusal.reason().contains("h:1"));
        assert!(read(&["version", "3"]).unwrap_err().reason().contains("version 3"));
        assert!(matches!(read(&[]), Err(StoreError::Unknown(_))));
        assert!(matches!(read(&["ok", "x"]), Err(StoreError::Unknown(_))));
    }
}
