//! What a worker tells, a line each.

use std::{
    fmt,
    io::{self, Write, stdout},
};

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since some fixed point, the same in every process of the machine.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    // Both fields are non-negative: this clock starts at zero.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// A task was granted something, and takes so much room; the time was read after that.
    Grant {
        task: usize,
        at: u64,
        token: u64,
        room: u32,
    },
    /// It is about to release it; the time was read before that. Whether the guard was valid still.
    Release {
        task: usize,
        at: u64,
        valid: bool,
    },
    /// It left without having been granted anything.
    GaveUp,
    Error(String),
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grant { task, at, token, room } => write!(f, "grant {task} {at} {token} {room}"),
            Self::Release { task, at, valid } => write!(f, "release {task} {at} {valid}"),
            Self::GaveUp => f.write_str("gave up"),
            Self::Error(error) => write!(f, "error {}", error.replace('\n', " ")),
        }
    }
}

impl Told {
    pub(crate) fn parse(line: &str) -> Option<Self> {
        if let Some(error) = line.strip_prefix("error ") {
            return Some(Self::Error(error.to_owned()));
        }
        let fields: Vec<&str> = line.split(' ').collect();
        match fields[..] {
            ["grant", task, at, token, room] => Some(Self::Grant {
                task: task.parse().ok()?,
                at: at.parse().ok()?,
                token: token.parse().ok()?,
                room: room.parse().ok()?,
            }),
            ["release", task, at, valid] => Some(Self::Release {
                task: task.parse().ok()?,
                at: at.parse().ok()?,
                valid: valid.parse().ok()?,
            }),
            ["gave", "up"] => Some(Self::GaveUp),
            _ => None,
        }
    }

    /// Writes it in one piece, as a process that is killed leaves no half lines.
    pub(crate) fn tell(&self) -> io::Result<()> {
        let mut out = stdout().lock();
        out.write_all(format!("{self}\n").as_bytes())?;
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_back() {
        let lines = [
            Told::Grant { task: 1, at: 2, token: u64::MAX, room: 4 },
            Told::Release { task: 1, at: 2, valid: false },
            Told::GaveUp,
            Told::Error("two lines".to_owned()),
        ];
        for told in lines {
            assert_eq!(Told::parse(&told.to_string()), Some(told));
        }
        for junk in ["", "grant 1 2 3", "grant 1 2 3 x", "release 1 2 maybe", "gave"] {
            assert_eq!(Told::parse(junk), None, "{junk}");
        }
    }
}
