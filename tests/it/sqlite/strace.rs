//! Reconstructs the disk state of a process's files at any moment from its system calls.
//!
//! strace records each write and each flush. A write since a file's last flush may be on disk or
//! not, independently of other writes and in any order.

use std::{collections::HashMap, path::Path};

use fastrand::Rng;
use tokio::process::Command;

/// The system calls by which SQLite writes, and by which a test prints.
const CALLS: &str = "--trace=pwrite64,ftruncate,unlink,fdatasync,fsync,write";

/// An action of a process.
#[derive(Debug)]
pub(super) enum Event {
    Wrote(String, Written),
    Flushed(String),
    Printed(String),
}

#[derive(Debug)]
pub(super) enum Written {
    At(usize, Vec<u8>),
    /// The file is truncated or extended to this length.
    Cut(usize),
}

impl Written {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::At(offset, written) => {
                let end = offset + written.len();
                bytes.resize(bytes.len().max(end), 0);
                bytes[*offset..end].copy_from_slice(written);
            }
            Self::Cut(length) => bytes.resize(*length, 0),
        }
    }
}

/// The files by name, as a disk stores them.
#[derive(Default)]
pub(super) struct Disk(HashMap<String, Stored>);

#[derive(Default)]
struct Stored {
    flushed: Vec<u8>,
    since: Vec<Written>,
}

impl Disk {
    pub(super) fn take(&mut self, event: Event) {
        match event {
            Event::Wrote(file, written) => self.0.entry(file).or_default().since.push(written),
            Event::Flushed(file) => {
                let stored = self.0.entry(file).or_default();
                stored.since.drain(..).for_each(|written| written.apply(&mut stored.flushed));
            }
            Event::Printed(_) => {}
        }
    }

    /// Creates the files that remain after a power loss at this moment. Each unflushed write is
    /// kept with the probability `kept`.
    pub(super) fn leave(&self, folder: &Path, random: &mut Rng, kept: f64) {
        for (name, stored) in &self.0 {
            let mut bytes = stored.flushed.clone();
            stored.since.iter().filter(|_| random.f64() < kept).for_each(|w| w.apply(&mut bytes));
            std::fs::write(folder.join(name), bytes).expect("written");
        }
    }
}

/// Returns the command that runs a program and logs its system calls to `log`.
pub(super) fn command(log: &Path, program: &Path) -> Command {
    let mut command = Command::new("strace");
    command.args(["--follow-forks", "--decode-fds=path", "--string-limit=1000000", "--quiet=all"]);
    command.args([CALLS, "--signal=none", "--seccomp-bpf"]).arg("--output").arg(log).arg(program);
    command
}

/// Returns the writes to the files of a folder and the lines of the standard output, in order.
pub(super) fn events(log: &[u8], folder: &Path) -> Vec<Event> {
    let folder = folder.join("").display().to_string();
    // By thread, because an unfinished flush ends in a later line.
    let mut flushing = HashMap::new();
    let mut events = Vec::new();
    for line in log.split(|byte| *byte == b'\n') {
        let line = str::from_utf8(line).expect("strace escapes what is not ASCII");
        let Some((thread, line)) = line.split_once(' ') else { continue };
        let Some((call, rest)) = line.trim_start().split_once('(') else {
            if line.contains("sync resumed>") {
                assert!(line.ends_with("= 0"), "{line}");
                events.extend(flushing.remove(thread).flatten().map(Event::Flushed));
            }
            continue;
        };
        let name = |of: &str| Some(of.split_once(&folder)?.1.split(['>', '"']).next()?.to_owned());
        match call {
            "write" if rest.starts_with("1<") => {
                let printed = String::from_utf8(string(rest).0).expect("text");
                events.extend(printed.lines().map(|line| Event::Printed(line.to_owned())));
            }
            "fdatasync" | "fsync" if rest.contains("unfinished") => {
                flushing.insert(thread.to_owned(), name(rest));
            }
            "fdatasync" | "fsync" => {
                assert!(rest.ends_with("= 0"), "{line}");
                events.extend(name(rest).map(Event::Flushed));
            }
            "pwrite64" => {
                let Some(file) = name(rest) else { continue };
                let (bytes, rest) = string(rest);
                let mut numbers = rest.split([',', ')', ' ']).filter_map(|word| word.parse().ok());
                let offset = numbers.nth(1).expect("length and offset");
                events.push(Event::Wrote(file, Written::At(offset, bytes)));
            }
            "ftruncate" => {
                let Some(file) = name(rest) else { continue };
                let length = rest.split([',', ')', ' ']).find_map(|word| word.parse().ok());
                events.push(Event::Wrote(file, Written::Cut(length.expect("a length"))));
            }
            // A file system keeps the order of directory operations.
            "unlink" => {
                let Some(file) = name(rest) else { continue };
                events.push(Event::Wrote(file.clone(), Written::Cut(0)));
                events.push(Event::Flushed(file));
            }
            _ => {}
        }
    }
    events
}

/// Returns the first string of a line, and the rest of the line.
fn string(line: &str) -> (Vec<u8>, &str) {
    let (_, line) = line.split_once('"').expect("a string");
    let (mut bytes, mut at) = (Vec::new(), 0);
    let ascii = line.as_bytes();
    while ascii[at] != b'"' {
        let mut byte = ascii[at];
        at += 1;
        if byte == b'\\' {
            byte = ascii[at];
            at += 1;
            byte = match byte {
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                b'v' => 0x0b,
                b'f' => 0x0c,
                b'0'..=b'7' => {
                    let mut octal = byte - b'0';
                    for _ in 0..2 {
                        if let digit @ b'0'..=b'7' = ascii[at] {
                            octal = octal.wrapping_mul(8).wrapping_add(digit - b'0');
                            at += 1;
                        } else {
                            break;
                        }
                    }
                    octal
                }
                other => other,
            };
        }
        bytes.push(byte);
    }
    (bytes, &line[at + 1..])
}

#[test]
fn strace_output_is_parsed() {
    let log = b"7 pwrite64(5</f/a-wal>, \"\\0\\18\\1777\\\"\\n\", 6, 32) = 6\n\
                7 fdatasync(5</f/a-wal> <unfinished ...>\n\
                8 write(1<pipe:[3]>, \"\\nsaid\\n\", 6) = 6\n\
                8 pwrite64(5</other/a>, \"x\", 1, 0) = 1\n\
                7 <... fdatasync resumed>) = 0\n\
                7 ftruncate(5</f/a-wal>, 33) = 0\n";
    let mut disk = Disk::default();
    let mut printed = Vec::new();
    for event in events(log, Path::new("/f")) {
        if let Event::Printed(line) = &event {
            printed.push(line.clone());
        }
        disk.take(event);
    }
    assert_eq!(printed, ["", "said"]);
    assert_eq!(disk.0.len(), 1);
    assert_eq!(disk.0["a-wal"].flushed[32..], *b"\0\x018\x7f7\"\n".as_slice());
    assert!(matches!(disk.0["a-wal"].since[..], [Written::Cut(33)]));
}
