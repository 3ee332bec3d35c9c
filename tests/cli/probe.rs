//! The program that `distlock` runs in these tests: copies of this one that record when they run.

use std::{
    env, fs,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use distlock_testkit::clock;

/// Their role, and the folder of their record.
const ROLE: &str = "DISTLOCK_TEST_ROLE";
const PLACE: &str = "DISTLOCK_TEST_PLACE";

/// How often it records that it is alive.
const PERIOD: Duration = Duration::from_millis(4);
/// No test takes longer.
const LIFE: Duration = Duration::from_secs(120);

/// Returns the arguments and environment that make `distlock` run a copy.
pub(crate) fn command(role: &str, place: &Path) -> (Vec<String>, [(&'static str, String); 2]) {
    let program = env::current_exe().expect("this program").display().to_string();
    let arguments = ["probe::helper_process_entry_point", "--exact", "--nocapture", "--quiet"]
        .map(str::to_owned);
    let environment = [(ROLE, role.to_owned()), (PLACE, place.display().to_string())];
    ([vec![program], arguments.to_vec()].concat(), environment)
}

/// The record of a copy that ignores TERM, with a background process of its own.
pub(crate) struct Record {
    place: PathBuf,
}

impl Record {
    pub(crate) fn at(place: &Path) -> Self {
        Self { place: place.to_owned() }
    }

    /// Returns both process ids, once both have recorded that they are alive.
    pub(crate) fn pids(&self) -> Option<[u32; 2]> {
        let pid = |name: &str| {
            self.last(name).filter(|stamp| *stamp > 0)?;
            fs::read_to_string(self.place.join(format!("{name}.pid"))).ok()?.parse().ok()
        };
        Some([pid("child")?, pid("background")?])
    }

    /// The last time it was alive, in microseconds since the machine was booted.
    fn last(&self, name: &str) -> Option<u64> {
        let bytes = fs::read(self.place.join(name)).ok()?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// Returns how long all were dead when the successor began, if it has. Panics if one was alive.
    pub(crate) fn gap(&self) -> Option<Duration> {
        let began = fs::read_to_string(self.place.join("successor")).ok()?;
        let (began, alive) = began.split_once(' ').expect("both");
        assert_eq!(alive, "", "alive when the successor began");
        let began: u64 = began.parse().expect("a time");
        let last =
            ["child", "background"].map(|name| self.last(name).expect("the process was alive"));
        let last = last.into_iter().max().expect("two");
        assert!(last < began, "alive {} µs after the successor began", last - began);
        Some(Duration::from_micros(began - last))
    }
}

/// Returns `true` if the process exists and is not a zombie.
pub(crate) fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Not a test, but the entry point of the copies.
#[test]
fn helper_process_entry_point() {
    let (Ok(role), Ok(place)) = (env::var(ROLE), env::var(PLACE)) else { return };
    let place = PathBuf::from(place);
    match role.as_str() {
        "stubborn" => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime");
            let _entered = runtime.enter();
            let kind = tokio::signal::unix::SignalKind::terminate();
            // Catches the signal from now on, and thereby ignores it.
            let _term = tokio::signal::unix::signal(kind).expect("the signal can be caught");
            let (command, environment) = command("background", &place);
            let (program, arguments) = command.split_first().expect("a program");
            let mut background = Command::new(program)
                .args(arguments)
                .envs(environment)
                .stdin(Stdio::null())
                .spawn()
                .expect("the process starts");
            stamp(&place, "child");
            let _ = background.kill();
            let _ = background.wait();
        }
        "background" => stamp(&place, "background"),
        "successor" => {
            let began = clock::uptime();
            let alive = Record::at(&place).pids().expect("both processes were alive");
            let alive: Vec<_> = alive.into_iter().filter(|pid| lives(*pid)).collect();
            let alive: Vec<_> = alive.iter().map(u32::to_string).collect();
            fs::write(place.join("successor"), format!("{began} {}", alive.join(" ")))
                .expect("the file is written");
        }
        role => panic!("no role {role}"),
    }
}

/// Records that it is alive, for as long as it is.
fn stamp(place: &Path, name: &str) {
    fs::write(place.join(format!("{name}.pid")), std::process::id().to_string())
        .expect("the file is written");
    let file = fs::File::create(place.join(name)).expect("a file");
    let start = Instant::now();
    while start.elapsed() < LIFE {
        file.write_all_at(&clock::uptime().to_le_bytes(), 0).expect("the file is written");
        sleep(PERIOD);
    }
}
