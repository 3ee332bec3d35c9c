//! What a worker tells, a line each.

use std::{fmt, io};

use distlock_testkit::orders::say;

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

    pub(crate) fn tell(&self) -> io::Result<()> {
        say(&self.to_string())
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
