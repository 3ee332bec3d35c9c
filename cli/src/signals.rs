//! Signals: which are forwarded, which end a wait, and their names.

use std::{fs, future::poll_fn, io, task::Poll};

use futures_util::FutureExt;
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

/// The signals that are forwarded.
const CAUGHT: &[(&str, Signal)] = &[
    ("HUP", Signal::HUP),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
    ("ALRM", Signal::ALARM),
    ("TERM", Signal::TERM),
    ("CONT", Signal::CONT),
    ("TSTP", Signal::TSTP),
    ("VTALRM", Signal::VTALARM),
    ("WINCH", Signal::WINCH),
    ("IO", Signal::IO),
    ("PWR", Signal::POWER),
];

/// Receives signals, which then no longer end this process.
pub(crate) struct Signals {
    streams: Vec<(Signal, tokio::signal::unix::Signal)>,
}

impl Signals {
    /// Starts to catch signals. Must be called in a runtime. Signals that this process was started
    /// to ignore, for example by `nohup`, remain ignored here and in the command. The exception is
    /// SIGCHLD: while it is ignored, the kernel discards how children end.
    pub(crate) fn catch() -> io::Result<Self> {
        drop(signal(SignalKind::child())?);
        let ignored = ignored(&fs::read_to_string("/proc/self/status").unwrap_or_default());
        let wanted = |(_, signal): &&(&str, Signal)| ignored & (1 << (signal.as_raw() - 1)) == 0;
        let stream = |(_, caught): &(&str, Signal)| {
            Ok((*caught, signal(SignalKind::from_raw(caught.as_raw()))?))
        };
        Ok(Self { streams: CAUGHT.iter().filter(wanted).map(stream).collect::<io::Result<_>>()? })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, stream) in &mut self.streams {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Discards the signals that have arrived.
    pub(crate) fn discard(&mut self) {
        while self.next().now_or_never().is_some() {}
    }

    /// Waits for the next signal that by default ends a process.
    pub(crate) async fn ending(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if !matches!(signal, Signal::CONT | Signal::WINCH | Signal::TSTP) {
                return signal;
            }
            if signal == Signal::TSTP {
                stop();
            }
        }
    }
}

/// Reads from `/proc/PID/status` which signals a process ignores, as one bit for each signal.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Stops this process, as TSTP does by default.
pub(crate) fn stop() {
    // A process may always stop itself.
    let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
}

/// Reads `TERM`, `SIGTERM` or `15`.
pub(crate) fn parse(text: &str) -> Result<Signal, String> {
    let known = text.parse().ok().and_then(Signal::from_named_raw);
    let name = text.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    let named = CAUGHT.iter().find(|(known, _)| *known == name).map(|(_, signal)| *signal);
    let named = named.or((name == "KILL").then_some(Signal::KILL));
    known.or(named).ok_or_else(|| {
        let names: Vec<_> = CAUGHT.iter().map(|(name, _)| *name).collect();
        format!("unknown signal: use one of {}, KILL, or a number from 1 to 31", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read() {
        assert_eq!(ignored("Name:\tx\nSigIgn:\t0000000000001001\n"), 0x1001);
        assert_eq!(ignored(""), 0);
    }

    #[test]
    fn names_and_numbers_are_read() {
        for text in ["TERM", "term", "SIGTERM", "15"] {
            assert_eq!(parse(text), Ok(Signal::TERM), "{text}");
        }
        assert_eq!(parse("KILL"), Ok(Signal::KILL));
        assert!(parse("BUZZ").is_err());
        assert!(parse("0").is_err());
        assert!(parse("-1").is_err());
    }
}
