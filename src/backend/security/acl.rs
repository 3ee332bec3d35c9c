//! Access rights for the nodes of ZooKeeper.

use std::{fmt, str::FromStr};

/// An entry as in ZooKeeper's own shell, `scheme:id:rights`; commas separate several.
#[cfg_attr(not(feature = "zookeeper"), allow(dead_code))]
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Acl(pub(crate) Vec<Right>);

#[cfg_attr(not(feature = "zookeeper"), allow(dead_code))]
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Right {
    pub(crate) scheme: String,
    pub(crate) id: String,
    /// Some of the letters `cdrwa`.
    pub(crate) rights: String,
}

impl FromStr for Acl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // An id may contain commas, for example the subject of a certificate. An entry is complete
        // when its end is valid rights.
        let (mut parts, mut rest) = (Vec::new(), None::<String>);
        for piece in text.split(',') {
            let part = rest.map_or(piece.to_owned(), |rest| format!("{rest},{piece}"));
            rest = match Right::parse(part.trim()) {
                Some(right) => {
                    parts.push(right);
                    None
                }
                None => Some(part),
            };
        }
        if rest.is_some() {
            return Err("write entries of the form scheme:id:rights, separated by commas, with \
                        some of the letters cdrwa as rights, as in auth::cdrwa,world:anyone:r"
                .into());
        }
        Ok(Self(parts))
    }
}

impl Right {
    fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once(':')?;
        let (id, rights) = rest.rsplit_once(':')?;
        let known = !rights.is_empty() && rights.chars().all(|right| "cdrwa".contains(right));
        let word = !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric());
        (known && word).then(|| Self {
            scheme: scheme.to_owned(),
            id: id.to_owned(),
            rights: rights.to_owned(),
        })
    }
}

/// Hides the id. In the scheme `digest` it contains an unsalted hash of a password.
impl fmt::Debug for Acl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |right: &Right| format!("{}:***:{}", right.scheme, right.rights);
        f.debug_list().entries(self.0.iter().map(shown)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acl_syntax_of_zkcli_is_accepted() {
        for (text, parts) in [
            ("world:anyone:cdrwa", vec![("world", "anyone", "cdrwa")]),
            ("auth::cdrw, world:anyone:r", vec![("auth", "", "cdrw"), ("world", "anyone", "r")]),
            (
                "digest:app:aGFzaA==:r,ip:10.0.0.0/8:cd",
                vec![("digest", "app:aGFzaA==", "r"), ("ip", "10.0.0.0/8", "cd")],
            ),
            (
                "x509:CN=app,O=a:cdrwa,sasl:b:r",
                vec![("x509", "CN=app,O=a", "cdrwa"), ("sasl", "b", "r")],
            ),
        ] {
            let acl: Acl = text.parse().unwrap();
            let read: Vec<_> =
                acl.0.iter().map(|right| (&*right.scheme, &*right.id, &*right.rights)).collect();
            assert_eq!(read, parts, "{text}");
            assert!(!format!("{acl:?}").contains("aGFz"));
        }
        for bad in ["", ":", "world:anyone", "world:anyone:", "world:anyone:x", "a:b:r,", "a b:c:r"]
        {
            assert!(bad.parse::<Acl>().is_err(), "{bad}");
        }
    }
}
