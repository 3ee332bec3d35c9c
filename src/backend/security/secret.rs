//! What must not be shown.

use std::fmt::{self, Debug, Formatter};

/// Something that nobody reads who prints what it is in: a password, a private key, or what a
/// client crate keeps them in. Only who says `expose` has it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret<T = String>(T);

impl<T> Secret<T> {
    pub(crate) fn new(secret: T) -> Self {
        Self(secret)
    }

    pub(crate) fn expose(&self) -> &T {
        &self.0
    }
}

impl<T: Debug> Debug for Secret<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
