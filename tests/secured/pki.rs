//! Certificates of the tests' own, and the folders that they lie in.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use time::OffsetDateTime;

/// A certificate authority.
pub(crate) struct Ca {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

/// A certificate and its key.
#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// For as long as any test takes.
pub(crate) const LONG: Duration = Duration::from_secs(24 * 3600);

impl Ca {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, format!("CA {:x}", fastrand::u64(..)));
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// For one who is called this, at these hosts, from a minute ago on.
    pub(crate) fn issue(&self, name: &str, hosts: &[&str], valid: Duration) -> Pair {
        let hosts: Vec<_> = hosts.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(hosts).expect("names of hosts");
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let now = OffsetDateTime::now_utc();
        (params.not_before, params.not_after) = (now - Duration::from_secs(60), now + valid);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Pair { certificate, key: key.serialize_pem() }
    }
}

/// A folder whose files are replaced all at once, as those of a secret in Kubernetes are: by the
/// link that they lie behind. Gone at the end of the test.
pub(crate) struct Folder {
    root: PathBuf,
    versions: AtomicU32,
}

impl Folder {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let name = format!("secured-{:016x}", fastrand::u64(..));
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&root).expect("a folder");
        let folder = Self { root, versions: AtomicU32::new(0) };
        folder.replace(files);
        folder
    }

    /// Puts these in place of all others.
    pub(crate) fn replace(&self, files: &[(&str, &str)]) {
        let version = format!("v{}", self.versions.fetch_add(1, Relaxed));
        let folder = self.root.join(&version);
        fs::create_dir(&folder).expect("a folder");
        for (name, text) in files {
            let path = folder.join(name);
            fs::write(&path, text).expect("a file");
            // The servers run as users of their own.
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("a mode");
        }
        let link = self.root.join("next");
        symlink(&version, &link).expect("a link");
        fs::rename(link, self.root.join("current")).expect("a link replaced");
    }

    /// Of a file; it stays the same.
    pub(crate) fn path(&self, name: &str) -> String {
        self.root.join("current").join(name).to_str().expect("a name").to_owned()
    }

    /// For `docker run`: there, the files are in `/secured/current`.
    pub(crate) fn mount(&self) -> String {
        format!("--volume={}:/secured:ro", self.root.to_str().expect("a name"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}
