//! What must not be shown.

use std::fmt::{self, Debug, Formatter};

/// Something that nobody reads who prints what it is in: a password, a private key, or what a
/// client crate keeps them in. Only who says `expose` or `into_exposed` has it.
#[derive(Clone)]
pub(crate) struct Secret<T = String>(T);

impl<T> Secret<T> {
    pub(crate) fn new(secret: T) -> Self {
        Self(secret)
    }

    pub(crate) fn expose(&self) -> &T {
        &self.0
    }

    #[cfg_attr(not(feature = "etcd"), allow(dead_code))]
    pub(crate) fn into_exposed(self) -> T {
        self.0
    }
}

impl<T: Debug> Debug for Secret<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
