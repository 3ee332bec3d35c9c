//! A tree of files: the disk has one as programs see it, and one that a power cut leaves.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsString,
    path::PathBuf,
    sync::Arc,
    time::SystemTime,
};

/// The unit that is written as a whole or not at all.
pub(crate) const PAGE: usize = 4096;

pub(crate) const ROOT: Ino = 1;

/// The number of an inode.
pub(crate) type Ino = u64;

/// An entry's place: its folder and its name.
pub(crate) type Place = (Ino, OsString);

/// What an inode contains.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    File(File),
    Folder(BTreeMap<OsString, Ino>),
    Link(PathBuf),
}

/// A file's content. Absent pages are zero. Trees share pages until one of them writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct File {
    pub(crate) pages: Vec<Option<Arc<[u8; PAGE]>>>,
    pub(crate) size: u64,
}

impl File {
    /// Returns up to `length` bytes from `offset` on, fewer at the end of the file.
    pub(crate) fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        let end = self.size.min(offset.saturating_add(length as u64));
        let mut data = vec![0; end.saturating_sub(offset) as usize];
        for (page, within, part) in parts(offset, data.len()) {
            if let Some(Some(page)) = self.pages.get(page) {
                let length = part.len();
                data[part].copy_from_slice(&page[within..within + length]);
            }
        }
        data
    }

    /// Writes, and returns the pages that it has changed.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) -> Vec<usize> {
        let mut changed = Vec::new();
        for (page, within, part) in parts(offset, data.len()) {
            let length = part.len();
            let slot = self.page(page).get_or_insert_with(|| Arc::new([0; PAGE]));
            Arc::make_mut(slot)[within..within + length].copy_from_slice(&data[part]);
            changed.push(page);
        }
        self.size = self.size.max(offset + data.len() as u64);
        changed
    }

    pub(crate) fn page(&mut self, index: usize) -> &mut Option<Arc<[u8; PAGE]>> {
        if self.pages.len() <= index {
            self.pages.resize(index + 1, None);
        }
        &mut self.pages[index]
    }

    fn resize(&mut self, size: u64) {
        if size < self.size {
            self.pages.truncate(size.div_ceil(PAGE as u64) as usize);
            let within = (size % PAGE as u64) as usize;
            if within > 0
                && let Some(Some(last)) = self.pages.get_mut((size / PAGE as u64) as usize)
            {
                Arc::make_mut(last)[within..].fill(0);
            }
        }
        self.size = size;
    }
}

/// Splits a range into its pages: each with the start within it, and the range of the data.
fn parts(
    offset: u64,
    length: usize,
) -> impl Iterator<Item = (usize, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let (page, within) = ((at / PAGE as u64) as usize, (at % PAGE as u64) as usize);
        let part = done..length.min(done + PAGE - within);
        done = part.end;
        (!part.is_empty()).then_some((page, within, part))
    })
}

#[derive(Clone, Debug)]
pub(crate) struct Inode {
    pub(crate) mode: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) links: u32,
    pub(crate) modified: SystemTime,
    pub(crate) body: Body,
}

impl Inode {
    pub(crate) fn file(&self) -> Option<&File> {
        match &self.body {
            Body::File(file) => Some(file),
            _ => None,
        }
    }

    pub(crate) fn file_mut(&mut self) -> Option<&mut File> {
        match &mut self.body {
            Body::File(file) => Some(file),
            _ => None,
        }
    }

    pub(crate) fn folder(&self) -> Option<&BTreeMap<OsString, Ino>> {
        match &self.body {
            Body::Folder(entries) => Some(entries),
            _ => None,
        }
    }
}

/// A change of the tree. Plain writes are none: they change pages.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Create { place: Place, ino: Ino, inode: Inode },
    Link { ino: Ino, place: Place },
    Unlink { place: Place },
    Rename { from: Place, to: Place },
    Resize { ino: Ino, size: u64 },
    Attributes { ino: Ino, mode: u16, uid: u32, gid: u32 },
}

#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) inodes: HashMap<Ino, Inode>,
}

impl Tree {
    pub(crate) fn new() -> Self {
        let root = Inode {
            mode: 0o755,
            uid: 0,
            gid: 0,
            links: 1,
            modified: SystemTime::now(),
            body: Body::Folder(BTreeMap::new()),
        };
        Self { inodes: HashMap::from([(ROOT, root)]) }
    }

    pub(crate) fn entry(&self, (folder, name): &Place) -> Option<Ino> {
        self.inodes.get(folder)?.folder()?.get(name).copied()
    }

    pub(crate) fn file_mut(&mut self, ino: Ino) -> Option<&mut File> {
        self.inodes.get_mut(&ino)?.file_mut()
    }

    /// Applies a change that is valid after all earlier ones. Returns the inode that has lost a
    /// name by it.
    pub(crate) fn apply(&mut self, change: &Change) -> Option<Ino> {
        match change {
            Change::Create { place, ino, inode } => {
                self.inodes.insert(*ino, inode.clone());
                self.put(place, *ino)
            }
            Change::Link { ino, place } => {
                self.inodes.get_mut(ino)?.links += 1;
                self.put(place, *ino)
            }
            Change::Unlink { place } => self.take(place).inspect(|ino| self.drop_name(*ino)),
            Change::Rename { from, to } => {
                let ino = self.take(from)?;
                self.put(to, ino)
            }
            Change::Resize { ino, size } => {
                self.file_mut(*ino)?.resize(*size);
                None
            }
            Change::Attributes { ino, mode, uid, gid } => {
                let inode = self.inodes.get_mut(ino)?;
                (inode.mode, inode.uid, inode.gid) = (*mode, *uid, *gid);
                None
            }
        }
    }

    /// Removes an inode without names.
    pub(crate) fn prune(&mut self, ino: Ino) {
        if self.inodes.get(&ino).is_some_and(|inode| inode.links == 0) {
            self.inodes.remove(&ino);
        }
    }

    fn folder_mut(&mut self, ino: Ino) -> Option<&mut BTreeMap<OsString, Ino>> {
        let inode = self.inodes.get_mut(&ino)?;
        inode.modified = SystemTime::now();
        match &mut inode.body {
            Body::Folder(entries) => Some(entries),
            _ => None,
        }
    }

    fn take(&mut self, (folder, name): &Place) -> Option<Ino> {
        self.folder_mut(*folder)?.remove(name)
    }

    fn put(&mut self, (folder, name): &Place, ino: Ino) -> Option<Ino> {
        let replaced = self.folder_mut(*folder)?.insert(name.clone(), ino)?;
        self.drop_name(replaced);
        Some(replaced)
    }

    fn drop_name(&mut self, ino: Ino) {
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.links = inode.links.saturating_sub(1);
        }
    }
}
