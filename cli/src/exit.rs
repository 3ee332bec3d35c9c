//! What went wrong, and the code that this process exits with.

use std::{error::Error as _, fmt, io, iter::successors};

use distlock::Error;

/// The request succeeded, but what it names does not exist: there is no leader, or no such key.
pub(crate) const ABSENT: u8 = 1;
/// A wrong command line, name, URL or option.
pub(crate) const USAGE: u8 = 64;
/// The store was not reached.
pub(crate) const UNAVAILABLE: u8 = 69;
/// The lock was lost.
pub(crate) const LOST: u8 = 70;
/// Something that should not happen.
pub(crate) const SYSTEM: u8 = 71;
/// The lock is held by another.
pub(crate) const BUSY: u8 = 75;
/// The store refuses access.
pub(crate) const DENIED: u8 = 77;
/// The command cannot be run.
const NOT_RUNNABLE: u8 = 126;
/// The command was not found.
const NOT_FOUND: u8 = 127;

/// For `--help` and the manual page.
pub(crate) const CODES: &str = "\
Exit codes:
  The exit code of the command, or 128 + n if signal n ended the command, or ended distlock before
  the command started.
    0  success; also if --once-per skipped the command
    1  leader, ask, evict, clear: not found; evict: a different token; doctor: a check failed
   64  usage error in the command line, a name, the URL or an option, or the store does not support
       the request; no command was run
   69  no usable server of the store replied in time
   70  the lock was lost, or could no longer be guarded; if the command was still running, it was
       killed before another client could acquire the lock, except after an eviction
   71  any other error
   75  the lock is busy (-n, clear), the wait timed out (-w), or the store could not confirm in time
       that the lock is free; run and elect: --conflict-exit-code sets a different code
   77  the store refused access
  126  the command could not be run
  127  the command was not found";

/// Why this process ends without having done what it was asked for.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    text: String,
}

impl Failure {
    pub(crate) fn new(code: u8, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::new(USAGE, text)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error {
            // The error's own text is for programs.
            Error::FeatureDisabled { scheme, feature, .. } => {
                return Self::usage(format!(
                    "this build of distlock does not support {scheme}://: to add the feature \
                     `{feature}`, run cargo install distlock-cli --features {feature}"
                ));
            }
            Error::InvalidUrl { .. }
            | Error::InvalidArgument { .. }
            | Error::Unsupported { .. } => USAGE,
            Error::Unavailable { .. } => UNAVAILABLE,
            Error::NotYet { .. } => BUSY,
            Error::Denied { .. } => DENIED,
            Error::Lost { .. } | Error::SessionLost { .. } | Error::Evicted { .. } => LOST,
            _ => SYSTEM,
        };
        Self { code, text: chain(&error) }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(SYSTEM, error.to_string())
    }
}

/// An error and what is behind it.
pub(crate) fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    for source in successors(error.source(), |error| (*error).source()) {
        let more = source.to_string();
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
    }
    text
}

/// The code of a command that could not be started, and why not.
pub(crate) fn not_started(error: &io::Error) -> (u8, String) {
    match error.kind() {
        io::ErrorKind::NotFound => (NOT_FOUND, "command not found".to_owned()),
        _ => (NOT_RUNNABLE, error.to_string()),
    }
}
