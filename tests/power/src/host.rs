//! A host with SQLite's file, which loses power. Its programs end with it.
//!
//! distlock refuses a file on FUSE, so the disk has one file, the image of an ext4 file system.

use std::{
    ffi::CStr,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use distlock_testkit::Result;
use fastrand::Rng;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tokio::task::block_in_place;

use crate::{
    disk::{Cut, Disk},
    mount::{Mount, unmount_unused},
};

const SIZE: u64 = 64 << 20;

#[derive(Debug)]
pub(crate) struct Host {
    disk: Mount,
    /// Where the file system of the image is mounted.
    folder: PathBuf,
    device: Option<String>,
    /// The disk with an empty file system.
    new: Disk,
}

impl Host {
    pub(crate) fn install(folder: &Path) -> Result<Self> {
        let volume = folder.join("volume");
        fs::create_dir_all(&volume)?;
        // What a killed run has left. Fails if there is none.
        while unmount(&volume, UnmountFlags::DETACH).is_ok() {}
        let disk = Mount::new(&folder.join("disk"), Disk::new())?;
        let mut host = Self { disk, folder: volume, device: None, new: Disk::new() };
        fs::File::create_new(host.image())?.set_len(SIZE)?;
        call(Command::new("mkfs.ext4").arg("-q").arg(host.image()))?;
        host.disk.sync_all()?;
        host.new = host.disk.copy();
        Ok(host)
    }

    fn image(&self) -> PathBuf {
        self.disk.folder().join("image")
    }

    pub(crate) fn url(&self) -> String {
        format!("sqlite://{}/locks.db", self.folder.display())
    }

    /// Turns the host on with an empty file system.
    pub(crate) fn begin(&mut self) -> Result<()> {
        block_in_place(|| self.restart(self.new.clone()))
    }

    /// Cuts the power, and turns the host on again. All programs that used the file must have been
    /// killed.
    pub(crate) fn cut_power(&mut self, cut: Cut, random: &mut Rng) -> Result<()> {
        block_in_place(|| {
            // What ext4 writes when it is unmounted comes too late.
            let mut disk = self.disk.copy();
            disk.cut(cut, random);
            self.restart(disk)
        })
    }

    fn restart(&mut self, disk: Disk) -> Result<()> {
        self.unmount()?;
        self.disk.replace(disk)?;
        let mut losetup = Command::new("losetup");
        let device = call(losetup.args(["--find", "--show"]).arg(self.image()))?;
        self.device = Some(device.clone());
        mount(device, &self.folder, "ext4", MountFlags::NOATIME, None::<&CStr>)?;
        Ok(())
    }

    fn unmount(&mut self) -> Result<()> {
        if let Some(device) = &self.device {
            unmount_unused(&self.folder)?;
            call(Command::new("losetup").args(["--detach", device]))?;
            self.device = None;
        }
        Ok(())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Err(error) = self.unmount() {
            eprintln!("{}: {error}", self.folder.display());
        }
    }
}

/// Runs a program, and returns its output.
fn call(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(io::Error::other(format!("{command:?}: {text}")).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
