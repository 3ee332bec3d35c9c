//! Certificates that a test creates with the `openssl` command, as `docker/up` does.

use std::{
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime},
};

/// A validity longer than any test takes.
pub const LONG: Duration = Duration::from_secs(24 * 3600);

/// A certificate and its key.
#[derive(Clone, Debug)]
pub struct Pair {
    /// PEM.
    pub certificate: String,
    /// PEM, PKCS #8.
    pub key: String,
}

/// A certificate authority. Its key is deleted at the end of the test.
#[derive(Debug)]
pub struct Ca {
    folder: PathBuf,
    /// Its own certificate.
    pub pem: String,
}

const KEY: [&str; 5] = ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];

/// `openssl ca` keeps a database of what it has signed. Concurrent calls need separate databases.
const CONFIG: &str = "\
[req]
distinguished_name = subject
[subject]
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign
[ca]
default_ca = own
[own]
new_certs_dir = .
database = BOOKS
rand_serial = yes
default_md = sha256
policy = any
unique_subject = no
[any]
commonName = supplied
";

impl Default for Ca {
    fn default() -> Self {
        Self::new()
    }
}

impl Ca {
    /// Creates an authority that has signed nothing.
    pub fn new() -> Self {
        let number = fastrand::u64(..);
        let folder = std::env::temp_dir().join(format!("distlock-ca-{number:016x}"));
        fs::create_dir(&folder).expect("a folder");
        fs::write(folder.join("config"), CONFIG).expect("a file");
        openssl(&folder, &[&KEY[..], &["-out", "ca-key.pem"]].concat());
        let subject = format!("/CN=CA {number:x}");
        let request = ["req", "-config", "config", "-x509", "-new", "-key", "ca-key.pem"];
        let own = ["-subj", &subject, "-extensions", "authority", "-days", "2", "-out", "ca.pem"];
        openssl(&folder, &[&request[..], &own].concat());
        let pem = read(&folder, "ca.pem");
        Self { folder, pem }
    }

    /// Issues a certificate with this name and these hosts, valid from a minute ago.
    pub fn issue(&self, name: &str, hosts: &[&str], valid: Duration) -> Pair {
        let hosts: Vec<_> = hosts.iter().map(|host| alternative(host)).collect();
        let mut extensions = String::from("extendedKeyUsage = serverAuth,clientAuth\n");
        if !hosts.is_empty() {
            extensions += &format!("subjectAltName = {}\n", hosts.join(","));
        }
        // Several certificates may be issued concurrently.
        let id = format!("{:016x}", fastrand::u64(..));
        let [key, request, signed, usage, books, config] =
            ["key", "csr", "pem", "ext", "books", "config"].map(|kind| format!("{id}.{kind}"));
        let written = [
            (&usage, extensions),
            (&books, String::new()),
            (&config, CONFIG.replace("BOOKS", &books)),
        ];
        for (file, text) in written {
            fs::write(self.folder.join(file), text).expect("a file");
        }
        openssl(&self.folder, &[&KEY[..], &["-out", &key]].concat());
        let subject = format!("/CN={name}");
        let csr = ["req", "-config", "config", "-new", "-key", &key, "-subj", &subject];
        openssl(&self.folder, &[&csr[..], &["-out", &request]].concat());
        let now = SystemTime::now();
        let [from, until] = [now - Duration::from_secs(60), now + valid].map(date);
        let authority = ["-config", &config, "-keyfile", "ca-key.pem", "-cert", "ca.pem"];
        let times = ["-startdate", &from, "-enddate", &until, "-extfile", &usage];
        let files = ["-in", &request, "-out", &signed];
        let sign = ["ca", "-batch", "-notext"];
        openssl(&self.folder, &[&sign[..], &authority, &times, &files].concat());
        Pair { certificate: read(&self.folder, &signed), key: read(&self.folder, &key) }
    }
}

impl Drop for Ca {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn alternative(host: &str) -> String {
    let kind = if host.parse::<IpAddr>().is_ok() { "IP" } else { "DNS" };
    format!("{kind}:{host}")
}

/// Formats a time for `openssl ca`: `20261127001500Z`.
fn date(time: SystemTime) -> String {
    let text = humantime::format_rfc3339_seconds(time).to_string();
    text.chars().filter(|part| part.is_ascii_digit()).chain(['Z']).collect()
}

fn read(folder: &Path, file: &str) -> String {
    fs::read_to_string(folder.join(file)).expect("a file that openssl created")
}

fn openssl(folder: &Path, arguments: &[&str]) {
    let made = Command::new("openssl").current_dir(folder).args(arguments).output();
    let made = made.expect("openssl is installed");
    let stderr = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "openssl {}: {stderr}", arguments.join(" "));
}
