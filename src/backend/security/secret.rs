//! Values that must not be printed.

use std::fmt::{self, Debug, Formatter};

/// A value that `Debug` never shows. It is a password, a private key, or a type of a client crate
/// that contains one of them. Only `expose` returns it.
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
