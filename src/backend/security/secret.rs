//! Values that must not be printed.

use std::fmt::{self, Debug, Formatter};

/// A value that `Debug` never shows, such as a password, a private key, or a URL or another value
/// that may contain one of them. Only `expose` returns it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_printed() {
        let secret = Secret::new("hunter2".to_owned());
        assert_eq!(format!("{secret:?} {:?}", Some(&secret)), "*** Some(***)");
        assert_eq!(secret.expose(), "hunter2");
    }
}
