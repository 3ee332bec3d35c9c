//! A disk in memory that knows what a power cut would leave of it.
//!
//! It behaves as a journaling file system that keeps the order of metadata: ext4 with
//! `data=ordered`, and XFS.
//!
//! - A plain write changes pages in the page cache. It is durable after `fsync` or `fdatasync` of
//!   its file, and with it the size of the file.
//! - Changes of names, sizes (`ftruncate`, `fallocate`) and attributes enter one journal. `fsync`
//!   commits the journal up to the last change of the given file or folder. So `fsync` of a new
//!   file also makes its name durable, together with all earlier changes, as on both file systems:
//!   servers rely on it. ext4 commits the later changes, too; XFS does not, and neither does this
//!   disk.
//! - A power cut leaves all of this. By chance, it also leaves a part of the rest: see
//!   [`Cut`].
//!
//! A page of 4 KiB is written as a whole or not at all, as disks with such sectors do.

mod cut;
#[cfg(test)]
mod tests;
mod tree;

use std::{
    collections::{BTreeSet, HashMap},
    ffi::OsStr,
    path::PathBuf,
    time::SystemTime,
};

use fuser::Errno;

use self::tree::{Change, PAGE, Tree};
pub(crate) use self::{
    cut::Cut,
    tree::{Body, File, Ino, Inode, ROOT},
};

type Result<T> = std::result::Result<T, Errno>;

/// The ends of the journal that a sync of an inode has to commit, as numbers of changes.
#[derive(Clone, Copy, Debug, Default)]
struct Needs {
    fsync: u64,
    fdatasync: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Disk {
    /// What programs see. Contains inodes without names while the kernel refers to them.
    live: Tree,
    /// What a power cut leaves.
    durable: Tree,
    /// The changes that a power cut may forget.
    journal: Vec<Change>,
    /// The number of changes that are durable.
    committed: u64,
    needs: HashMap<Ino, Needs>,
    /// The pages of each file that a power cut may forget.
    dirty: HashMap<Ino, BTreeSet<usize>>,
    /// How often the kernel refers to each inode.
    references: HashMap<Ino, u64>,
    last: Ino,
}

impl Disk {
    pub(crate) fn new() -> Self {
        Self {
            live: Tree::new(),
            durable: Tree::new(),
            journal: Vec::new(),
            committed: 0,
            needs: HashMap::new(),
            dirty: HashMap::new(),
            references: HashMap::new(),
            last: ROOT,
        }
    }

    pub(crate) fn inode(&self, ino: Ino) -> Result<&Inode> {
        self.live.inodes.get(&ino).ok_or(Errno::ENOENT)
    }

    /// Returns the inode of a name.
    pub(crate) fn find(&self, folder: Ino, name: &OsStr) -> Result<Ino> {
        self.live.entry(&(folder, name.to_owned())).ok_or(Errno::ENOENT)
    }

    /// Creates a file, folder or symbolic link.
    pub(crate) fn create(
        &mut self,
        folder: Ino,
        name: &OsStr,
        (mode, uid, gid): (u16, u32, u32),
        body: Body,
    ) -> Result<Ino> {
        let place = (folder, name.to_owned());
        if self.live.entry(&place).is_some() {
            return Err(Errno::EEXIST);
        }
        self.last += 1;
        let (ino, modified) = (self.last, SystemTime::now());
        let inode = Inode { mode, uid, gid, links: 1, modified, body };
        self.change(Change::Create { place, ino, inode });
        Ok(ino)
    }

    pub(crate) fn link(&mut self, ino: Ino, folder: Ino, name: &OsStr) -> Result<()> {
        let place = (folder, name.to_owned());
        if self.live.entry(&place).is_some() {
            return Err(Errno::EEXIST);
        }
        self.change(Change::Link { ino, place });
        Ok(())
    }

    /// Removes the name of a file, or an empty folder.
    pub(crate) fn unlink(&mut self, folder: Ino, name: &OsStr) -> Result<()> {
        let ino = self.find(folder, name)?;
        self.must_be_empty(ino)?;
        self.change(Change::Unlink { place: (folder, name.to_owned()) });
        Ok(())
    }

    pub(crate) fn rename(&mut self, from: (Ino, &OsStr), to: (Ino, &OsStr)) -> Result<()> {
        let ino = self.find(from.0, from.1)?;
        if let Ok(replaced) = self.find(to.0, to.1) {
            if replaced == ino {
                return Ok(());
            }
            self.must_be_empty(replaced)?;
        }
        let place = |(folder, name): (Ino, &OsStr)| (folder, name.to_owned());
        self.change(Change::Rename { from: place(from), to: place(to) });
        Ok(())
    }

    fn must_be_empty(&self, ino: Ino) -> Result<()> {
        match self.inode(ino)?.folder() {
            Some(entries) if !entries.is_empty() => Err(Errno::ENOTEMPTY),
            _ => Ok(()),
        }
    }

    /// Returns the target of a symbolic link.
    pub(crate) fn target(&self, ino: Ino) -> Result<PathBuf> {
        match &self.inode(ino)?.body {
            Body::Link(target) => Ok(target.clone()),
            _ => Err(Errno::EINVAL),
        }
    }

    pub(crate) fn file(&self, ino: Ino) -> Result<&File> {
        self.inode(ino)?.file().ok_or(Errno::EISDIR)
    }

    /// Writes into the page cache.
    pub(crate) fn write(&mut self, ino: Ino, offset: u64, data: &[u8]) -> Result<()> {
        let inode = self.live.inodes.get_mut(&ino).ok_or(Errno::ENOENT)?;
        inode.modified = SystemTime::now();
        let changed = inode.file_mut().ok_or(Errno::EISDIR)?.write(offset, data);
        self.dirty.entry(ino).or_default().extend(changed);
        Ok(())
    }

    /// Sets a file's size: `ftruncate`, and `fallocate` beyond the end.
    pub(crate) fn resize(&mut self, ino: Ino, size: u64) -> Result<()> {
        if self.file(ino)?.size != size {
            self.change(Change::Resize { ino, size });
            if let Some(dirty) = self.dirty.get_mut(&ino) {
                dirty.split_off(&(size.div_ceil(PAGE as u64) as usize));
            }
        }
        Ok(())
    }

    pub(crate) fn set_attributes(&mut self, ino: Ino, mode: u16, uid: u32, gid: u32) {
        self.change(Change::Attributes { ino, mode, uid, gid });
    }

    pub(crate) fn set_modified(&mut self, ino: Ino, modified: SystemTime) {
        if let Some(inode) = self.live.inodes.get_mut(&ino) {
            inode.modified = modified;
        }
    }

    /// Makes a file or a folder durable. `data` is for `fdatasync`.
    pub(crate) fn sync(&mut self, ino: Ino, data: bool) {
        let needs = self.needs.get(&ino).copied().unwrap_or_default();
        self.commit(if data { needs.fdatasync } else { needs.fsync });
        self.flush(ino);
    }

    /// Makes everything durable.
    pub(crate) fn sync_all(&mut self) {
        self.commit(u64::MAX);
        for ino in self.dirty.keys().copied().collect::<Vec<_>>() {
            self.flush(ino);
        }
    }

    /// The kernel refers to the inode once more.
    pub(crate) fn refer(&mut self, ino: Ino) {
        *self.references.entry(ino).or_default() += 1;
    }

    /// The kernel refers to the inode less often. Removes it if it has no name either.
    pub(crate) fn forget(&mut self, ino: Ino, times: u64) {
        let left = self.references.get(&ino).map_or(0, |had| had.saturating_sub(times));
        if left > 0 {
            self.references.insert(ino, left);
            return;
        }
        self.references.remove(&ino);
        self.live.prune(ino);
        if !self.live.inodes.contains_key(&ino) {
            self.dirty.remove(&ino);
            self.needs.remove(&ino);
        }
    }

    fn change(&mut self, change: Change) {
        let end = self.committed + self.journal.len() as u64 + 1;
        let mut needs = |ino: Ino, data: bool| {
            let needs = self.needs.entry(ino).or_default();
            needs.fsync = end;
            if data {
                needs.fdatasync = end;
            }
        };
        match &change {
            Change::Create { place, ino, .. } => {
                needs(*ino, true);
                needs(place.0, true);
            }
            Change::Link { ino, place } => {
                needs(*ino, false);
                needs(place.0, true);
            }
            Change::Unlink { place } => needs(place.0, true),
            Change::Rename { from, to } => {
                needs(from.0, true);
                needs(to.0, true);
                if let Some(ino) = self.live.entry(from) {
                    needs(ino, false);
                }
            }
            Change::Resize { ino, .. } => needs(*ino, true),
            Change::Attributes { ino, .. } => needs(*ino, false),
        }
        let nameless = self.live.apply(&change);
        self.journal.push(change);
        if let Some(ino) = nameless
            && !self.references.contains_key(&ino)
        {
            self.forget(ino, 0);
        }
    }

    /// Makes the journal durable up to this number of changes.
    fn commit(&mut self, end: u64) {
        let count = end.saturating_sub(self.committed).min(self.journal.len() as u64);
        for change in self.journal.drain(..count as usize) {
            if let Some(nameless) = self.durable.apply(&change) {
                self.durable.prune(nameless);
            }
        }
        self.committed += count;
    }

    /// Makes the pages and the size of a file durable, whose changes are committed.
    fn flush(&mut self, ino: Ino) {
        let dirty = self.dirty.remove(&ino).unwrap_or_default();
        let live = self.live.inodes.get_mut(&ino).and_then(|inode| inode.file_mut());
        if let (Some(live), Some(durable)) = (live, self.durable.file_mut(ino)) {
            for index in dirty {
                durable.page(index).clone_from(live.page(index));
            }
            durable.size = live.size;
        }
    }
}
