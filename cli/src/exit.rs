//! Failures and exit codes.

use std::{error::Error as _, fmt, io, iter::successors};

use distlock::Error;

/// What the request names does not exist, such as a leader or a key, or the key has a different
/// token. Also for a failed check of `doctor`.
pub(crate) const ABSENT: u8 = 1;
/// A wrong command line, name, URL or option.
pub(crate) const USAGE: u8 = 64;
/// The store was not reached.
pub(crate) const UNAVAILABLE: u8 = 69;
/// The lock was lost.
pub(crate) const LOST: u8 = 70;
/// An error that none of the other codes describes.
pub(crate) const SYSTEM: u8 = 71;
/// The lock is busy, the wait timed out, or the store could not confirm in time that it is free.
pub(crate) const BUSY: u8 = 75;
/// The store refuses access.
pub(crate) const DENIED: u8 = 77;
/// The command cannot be run.
const NOT_RUNNABLE: u8 = 126;
/// The command was not found.
const NOT_FOUND: u8 = 127;

/// The list for `--help` and the manual page.
pub(crate) const CODES: &str = "\
Exit codes:
  The exit code of the command, or 128 + n if signal n ended the command, or ended distlock before
  the command started. Also 128 + n if signal n ended ask, clear, observe, queue --watch or top.
    0  success; also if --once-per skipped the command
    1  leader, ask, evict, clear: not found; evict: a different token; doctor: a check failed
   64  the command line, a name, the URL or an option is invalid, or the store does not support the
       request; no command was run
   69  no usable server of the store replied in time, or the SQLite file cannot be used
   70  the lock was lost, or distlock could no longer guard the command; if the command was still
       running, it was killed
   71  any other error
   75  the lock is busy (-n, clear), the wait timed out (-w), or the store could not confirm in time
       that the lock is free; run and elect: --conflict-exit-code sets a different code
   77  the store refused access, or distlock rejected the server, for example because of its
       certificate
  126  the command could not be run
  127  the command or its interpreter was not found";

/// Why a subcommand failed, and the exit code.
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
            // The error's own text describes how to change a program that uses the library.
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

/// Returns the text of an error and of its sources.
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

/// Returns the exit code for a command that could not be started, and the reason.
pub(crate) fn not_started(error: &io::Error) -> (u8, String) {
    match error.kind() {
        io::ErrorKind::NotFound => {
            (NOT_FOUND, "the command or its interpreter was not found".to_owned())
        }
        _ => (NOT_RUNNABLE, error.to_string()),
    }
}
