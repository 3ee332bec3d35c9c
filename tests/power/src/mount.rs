//! Mounts a [`Disk`] by FUSE, and cuts its power.

mod fuse;
#[cfg(test)]
mod tests;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use fastrand::Rng;
use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::mount::{UnmountFlags, unmount};

use self::fuse::Fuse;
use crate::disk::{Cut, Disk};

/// How long the kernel may take to drop killed processes' references to a mount.
const PATIENCE: Duration = Duration::from_secs(20);

/// A mounted disk. It is unmounted on drop.
#[derive(Debug)]
pub(crate) struct Mount {
    folder: PathBuf,
    disk: Arc<Mutex<Disk>>,
    session: Option<BackgroundSession>,
}

impl Mount {
    /// Mounts a disk on a folder, which is created. Mounts that killed runs have left are removed.
    pub(crate) fn new(folder: &Path, disk: Disk) -> io::Result<Self> {
        // Fails if there is none.
        while unmount(folder, UnmountFlags::DETACH).is_ok() {}
        fs::create_dir_all(folder)?;
        let disk = Arc::new(Mutex::new(disk));
        let mut mount = Self { folder: folder.to_owned(), disk, session: None };
        mount.start()?;
        Ok(mount)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Cuts the power: forgets what was not flushed, and mounts the disk again. All processes that
    /// used it must have been killed.
    pub(crate) fn cut(&mut self, cut: Cut, random: &mut Rng) -> io::Result<()> {
        // The kernel writes changed pages of mapped files back, and drops its caches.
        self.stop()?;
        self.lock().cut(cut, random);
        self.start()
    }

    /// Makes everything durable.
    pub(crate) fn sync_all(&mut self) -> io::Result<()> {
        self.stop()?;
        self.lock().sync_all();
        self.start()
    }

    /// Returns a copy of the disk. The two share their pages.
    pub(crate) fn copy(&self) -> Disk {
        self.lock().clone()
    }

    /// Replaces the disk.
    pub(crate) fn replace(&mut self, disk: Disk) -> io::Result<()> {
        self.stop()?;
        *self.lock() = disk;
        self.start()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&mut self) -> io::Result<()> {
        let mut config = Config::default();
        config.acl = SessionACL::All;
        config.mount_options = vec![
            MountOption::FSName("power".to_owned()),
            MountOption::DefaultPermissions,
            MountOption::NoAtime,
        ];
        let fuse = Fuse::new(Arc::clone(&self.disk));
        self.session = Some(Session::new(fuse, &self.folder, &config)?.spawn()?);
        Ok(())
    }

    fn stop(&mut self) -> io::Result<()> {
        let Some(session) = self.session.take() else { return Ok(()) };
        if let Err(error) = unmount_unused(&self.folder) {
            self.session = Some(session);
            return Err(error);
        }
        session.guard.join().map_err(|_| io::Error::other("the file system panicked"))?
    }
}

/// Unmounts a file system as soon as the kernel has dropped the references of killed processes.
pub(crate) fn unmount_unused(folder: &Path) -> io::Result<()> {
    let end = Instant::now() + PATIENCE;
    loop {
        match unmount(folder, UnmountFlags::empty()) {
            Err(_) if Instant::now() < end => std::thread::sleep(Duration::from_millis(2)),
            outcome => return Ok(outcome?),
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.session.is_some() {
            let _ = unmount(&self.folder, UnmountFlags::DETACH);
        }
    }
}
