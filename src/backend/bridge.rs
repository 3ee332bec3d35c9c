//! The layouts of other libraries' locks, which mutexes with a bridge also exclude.

use crate::error::Error;

/// How another library stores the holder of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// `SET key value NX PX ttl`, as in most libraries.
    Plain,
    /// Redisson's hash.
    Redisson,
}

impl Layout {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Redisson => "redisson",
        }
    }
}

/// The bridge to another library's locks.
///
/// The other library's key for a mutex is the prefix followed by the mutex's unescaped name. The
/// namespace is not part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "redis"), allow(dead_code))]
pub(crate) struct Bridge {
    pub(crate) layout: Layout,
    pub(crate) prefix: String,
}

/// The prefixes of distlock's own keys: those of version 1, and those of each namespace.
const OURS: [&str; 2] = ["{distlock}:", "{distlock:"];

#[cfg_attr(not(feature = "redis"), allow(dead_code))]
impl Bridge {
    /// Returns `None` if the layout is unknown.
    pub(crate) fn new(layout: &str, prefix: String) -> Option<Self> {
        let layouts = [Layout::Plain, Layout::Redisson];
        let layout = layouts.into_iter().find(|known| known.name() == layout)?;
        Some(Self { layout, prefix })
    }

    /// Returns the key that other libraries use for the mutex of this name.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Refuses a name for which other libraries would write to distlock's own keys.
    pub(crate) fn check(&self, name: &str) -> Result<(), Error> {
        let key = self.key(name);
        let Some(ours) = OURS.into_iter().find(|ours| key.starts_with(ours)) else {
            return Ok(());
        };
        let reason = format!(
            "keys that begin with {ours} are reserved for distlock; use another name or \
             bridge_prefix"
        );
        Err(Error::invalid_value("name", name, &reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bridged_mutex_uses_the_key_of_other_libraries() {
        let bridge = |layout, prefix: &str| Bridge::new(layout, prefix.to_owned());
        assert_eq!(bridge("plain", "").unwrap().key("a/b c"), "a/b c");
        assert_eq!(bridge("redisson", "lock:").unwrap().key("a"), "lock:a");
        assert_eq!(bridge("redlock", ""), None);
        for (prefix, name, fits) in [
            ("", "a", true),
            ("", "{distlock}", true),
            ("{distlock}", "a", true),
            ("", "{distlock}:queue", false),
            ("{distlock}", ":queue", false),
            ("{distlock}:gates:", "a", false),
            ("{distlock:/ns}", ":queue", false),
        ] {
            let checked = bridge("plain", prefix).unwrap().check(name);
            assert_eq!(checked.is_ok(), fits, "{prefix} {name}");
        }
    }
}
