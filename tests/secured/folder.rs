//! The folders that certificates are read from.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

/// A folder whose files are replaced all at once through a symbolic link, like the files of a
/// Kubernetes secret. It is removed at the end of the test.
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

    /// Replaces all files.
    pub(crate) fn replace(&self, files: &[(&str, &str)]) {
        let version = format!("v{}", self.versions.fetch_add(1, Relaxed));
        let folder = self.root.join(&version);
        fs::create_dir(&folder).expect("a folder");
        for (name, text) in files {
            let path = folder.join(name);
            fs::write(&path, text).expect("a file");
            // The servers run as other users.
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("a mode");
        }
        let link = self.root.join("next");
        symlink(&version, &link).expect("a link");
        fs::rename(link, self.root.join("current")).expect("a link replaced");
    }

    /// Returns the path of a file, which never changes.
    pub(crate) fn path(&self, name: &str) -> String {
        self.root.join("current").join(name).to_str().expect("a name").to_owned()
    }

    /// Returns the volume for `docker run`: there, the files are in `/secured/current`.
    pub(crate) fn mount(&self) -> String {
        format!("--volume={}:/secured:ro", self.root.to_str().expect("a name"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}
