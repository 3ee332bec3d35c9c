//! Identifies the file, and checks that processes can share it.

#[cfg(unix)]
use std::os::unix::fs::MetadataExt;
use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use crate::{
    backend::{Result, StoreError},
    runtime::boot,
};

const OPENING: &str = "opening the file";

/// File systems that only one host can use, by `statfs` type (`linux/magic.h`). Other hosts may
/// write to any other file system. Neither SQLite's locks nor this host's clock would then hold for
/// all clients. An overlay is written to its upper layer, and Linux does not allow a network file
/// system there.
#[cfg(target_os = "linux")]
const LOCAL: [u32; 16] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // Btrfs
    0xf2f5_2010, // F2FS
    0x2fc1_2fc1, // ZFS
    0xca45_1a4e, // bcachefs
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0x794c_7630, // overlayfs
    0x3153_464a, // JFS
    0x5265_4973, // ReiserFS
    0x3434,      // NILFS
    0x2405_1905, // UBIFS
    0x4d44,      // FAT
    0x2011_bab0, // exFAT
    0x7366_746e, // NTFS
];

/// The names of some other file systems.
#[cfg(target_os = "linux")]
const SHARED: [(u32, &str); 15] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xfe53_4d42, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0x0102_1997, "9P"),
    (0x6573_5546, "FUSE"),
    (0x00c3_6400, "Ceph"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x0bd0_0bd0, "Lustre"),
    (0x5346_414f, "AFS"),
    (0x7375_7245, "Coda"),
    (0x786f_4256, "VirtualBox's shared folders"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
];

/// The identity of a file, independent of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

/// Returns the identity of the file at a path, if there is one, without opening it. Closing one of
/// SQLite's files would release SQLite's own locks on it (<https://sqlite.org/howtocorrupt.html>,
/// 2.2).
#[cfg(unix)]
pub(super) fn find(path: &Path) -> Option<Identity> {
    let found = fs::metadata(path).ok()?;
    Some(Identity { device: found.dev(), inode: found.ino() })
}

/// Other systems have no boot id, and no file is opened there.
#[cfg(not(unix))]
pub(super) fn find(_: &Path) -> Option<Identity> {
    None
}

/// Returns the path to open. Fails if the processes of a host cannot share a file there.
pub(super) fn check(path: &Path) -> Result<PathBuf> {
    let refused = |reason: String| {
        let source = format!("{}: {reason}", path.display()).into();
        Err(StoreError::Fatal { operation: OPENING, source })
    };
    let path = match std::path::absolute(path) {
        Ok(path) => path,
        Err(error) => return refused(error.to_string()),
    };
    let Some(folder) = path.parent() else { return refused("this is not a regular file".into()) };
    match fs::metadata(folder) {
        // The directory may be created, or come back.
        Err(error) => {
            let reason =
                format!("{}: its directory cannot be used: {error}", path.display()).into();
            return Err(match error.kind() {
                ErrorKind::PermissionDenied => StoreError::Denied(reason),
                _ => StoreError::Unavailable(reason),
            });
        }
        Ok(found) if !found.is_dir() => return refused("the parent is not a directory".into()),
        Ok(_) => {}
    }
    match fs::metadata(&path) {
        Ok(found) if !found.is_file() => return refused("this is not a regular file".into()),
        // SQLite names its auxiliary files after the path, so two names would lead to two sets of
        // them.
        #[cfg(unix)]
        Ok(found) if found.nlink() > 1 => {
            return refused("the file has several names (hard links), but must have one".into());
        }
        // Like a second name: the auxiliary files would stay outside of the mount.
        Ok(_) if boot::is_mount_point(&path) => {
            return refused(
                "the file is mounted as a single file, for example into a container: mount its \
                 directory instead"
                    .into(),
            );
        }
        _ => {}
    }
    // SQLite follows a symbolic link, which may lead to another file system.
    let place = if path.exists() { path.as_path() } else { folder };
    match reason_to_refuse(place) {
        Some(reason) => refused(reason),
        None => Ok(path),
    }
}

/// Returns why a file cannot be used at this path, or in this directory, if other hosts may write
/// to its file system.
pub(super) fn reason_to_refuse(path: &Path) -> Option<String> {
    let name = shared(path)?;
    Some(format!(
        "the file is on a file system of type {name}, which is not known to be local to this host: \
         put the file on a local file system (in a container, on a volume or a tmpfs)"
    ))
}

/// Returns the type of a file system that other hosts may write to.
#[cfg(target_os = "linux")]
fn shared(path: &Path) -> Option<String> {
    // If this fails, opening the file fails too, with a better error.
    let kind = rustix::fs::statfs(path).ok()?.f_type;
    // The types have 32 bits, whatever integer the platform stores them in.
    foreign(kind as u32)
}

#[cfg(target_os = "linux")]
fn foreign(kind: u32) -> Option<String> {
    let name = SHARED.iter().find(|(known, _)| *known == kind).map(|(_, name)| (*name).to_owned());
    (!LOCAL.contains(&kind)).then(|| name.unwrap_or_else(|| format!("{kind:#x}")))
}

#[cfg(not(target_os = "linux"))]
fn shared(_: &Path) -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unshareable_sqlite_files_are_refused() {
        let folder = std::env::temp_dir().join(format!("distlock-file-{}", std::process::id()));
        fs::create_dir_all(folder.join("sub")).unwrap();
        let reason = |path: &Path| check(path).unwrap_err().reason();
        assert!(reason(&folder.join("none/a")).contains("its directory"));
        assert!(reason(&folder).contains("not a regular file"));
        assert!(reason(Path::new("/proc/self/none/a")).contains("its directory"));
        let (one, other) = (folder.join("one"), folder.join("other"));
        fs::write(&one, "").unwrap();
        check(&one).unwrap();
        let found = find(&one);
        assert_ne!((found, find(&other)), (None, found));
        fs::hard_link(&one, &other).unwrap();
        assert!(reason(&one).contains("several names"));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn link_to_another_file_system_is_refused() {
        let folder = std::env::temp_dir().join(format!("distlock-link-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let link = folder.join("link");
        std::os::unix::fs::symlink("/proc/self/status", &link).unwrap();
        let reason = check(&link).unwrap_err().reason();
        assert!(reason.contains("file system of type"), "{reason}");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn unknown_file_systems_are_refused() {
        for local in [0xef53, 0x0102_1994, 0x794c_7630] {
            assert_eq!(foreign(local), None, "{local:#x}");
        }
        // PanFS is in neither list.
        for (kind, name) in [(0x6969, "NFS"), (0x6573_5546, "FUSE"), (0xaad7_aaea, "0xaad7aaea")] {
            assert_eq!(foreign(kind).as_deref(), Some(name));
        }
        assert!(SHARED.iter().all(|(kind, _)| !LOCAL.contains(kind)));
    }
}
