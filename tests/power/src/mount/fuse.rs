//! FUSE's requests to a [`Disk`].
//!
//! Programs use the kernel's page cache, so mapped files work. The kernel passes each `write` on at
//! once, and the changed pages of mapped files when it writes them back, at the latest when the
//! disk is unmounted. It manages the locks of files by itself.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::{OsStr, OsString},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{FallocateFlags, OFlags};

use crate::disk::{Body, Disk, File, Ino, Inode};

/// The kernel may cache everything: all changes come from it.
const FOREVER: Duration = Duration::from_secs(1 << 30);

const GENERATION: Generation = Generation(0);

/// The size of the disk that programs see, in blocks of 4 KiB.
const BLOCKS: u64 = 1 << 24;

type Listing = Vec<(Ino, FileType, OsString)>;

#[derive(Debug)]
pub(super) struct Fuse {
    disk: Arc<Mutex<Disk>>,
    /// The entries of the open folders, as they were when they were opened.
    listings: Mutex<HashMap<u64, Listing>>,
}

impl Fuse {
    pub(super) fn new(disk: Arc<Mutex<Disk>>) -> Self {
        Self { disk, listings: Mutex::default() }
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listings(&self) -> MutexGuard<'_, HashMap<u64, Listing>> {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates an entry to which the kernel then refers.
    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        body: Body,
    ) -> Result<FileAttr, Errno> {
        let mut disk = self.disk();
        let owner = ((mode & 0o7777) as u16, request.uid(), request.gid());
        let ino = disk.create(parent.0, name, owner, body)?;
        disk.refer(ino);
        Ok(attributes(ino, disk.inode(ino)?))
    }

    fn remove(&self, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.disk().unlink(parent.0, name));
    }

    fn sync(&self, ino: INodeNo, data: bool, reply: ReplyEmpty) {
        self.disk().sync(ino.0, data);
        reply.ok();
    }
}

fn answer(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

fn answer_entry(reply: ReplyEntry, result: Result<FileAttr, Errno>) {
    match result {
        Ok(attributes) => reply.entry(&FOREVER, &attributes, GENERATION),
        Err(error) => reply.error(error),
    }
}

fn kind(inode: &Inode) -> FileType {
    match inode.body {
        Body::File(_) => FileType::RegularFile,
        Body::Folder(_) => FileType::Directory,
        Body::Link(_) => FileType::Symlink,
    }
}

fn attributes(ino: Ino, inode: &Inode) -> FileAttr {
    let size = inode.file().map_or(0, |file| file.size);
    FileAttr {
        ino: INodeNo(ino),
        size,
        blocks: size.div_ceil(512),
        atime: inode.modified,
        mtime: inode.modified,
        ctime: inode.modified,
        crtime: inode.modified,
        kind: kind(inode),
        perm: inode.mode,
        nlink: inode.links,
        uid: inode.uid,
        gid: inode.gid,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

impl Filesystem for Fuse {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut disk = self.disk();
        let found = disk.find(parent.0, name).and_then(|ino| {
            disk.refer(ino);
            Ok(attributes(ino, disk.inode(ino)?))
        });
        answer_entry(reply, found);
    }

    fn forget(&self, _: &Request, ino: INodeNo, times: u64) {
        self.disk().forget(ino.0, times);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.disk().inode(ino.0) {
            Ok(inode) => reply.attr(&FOREVER, &attributes(ino.0, inode)),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut disk = self.disk();
        let mut set = || {
            if let Some(size) = size {
                disk.resize(ino.0, size)?;
            }
            let had = disk.inode(ino.0)?;
            let (had, new) = (
                (had.mode, had.uid, had.gid),
                (
                    mode.map_or(had.mode, |mode| (mode & 0o7777) as u16),
                    uid.unwrap_or(had.uid),
                    gid.unwrap_or(had.gid),
                ),
            );
            if had != new {
                disk.set_attributes(ino.0, new.0, new.1, new.2);
            }
            match modified {
                Some(TimeOrNow::SpecificTime(time)) => disk.set_modified(ino.0, time),
                Some(TimeOrNow::Now) => disk.set_modified(ino.0, SystemTime::now()),
                None => {}
            }
            Ok(attributes(ino.0, disk.inode(ino.0)?))
        };
        match set() {
            Ok(attributes) => reply.attr(&FOREVER, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.disk().target(ino.0) {
            Ok(target) => reply.data(target.as_os_str().as_encoded_bytes()),
            Err(error) => reply.error(error),
        }
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let folder = Body::Folder(BTreeMap::new());
        answer_entry(reply, self.create(request, parent, name, mode & !umask, folder));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let link = Body::Link(target.to_owned());
        answer_entry(reply, self.create(request, parent, name, 0o777, link));
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let file = Body::File(File::default());
        match self.create(request, parent, name, mode & !umask, file) {
            Ok(attributes) => {
                let flags = FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH;
                reply.created(&FOREVER, &attributes, GENERATION, FileHandle(0), flags);
            }
            Err(error) => reply.error(error),
        }
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut disk = self.disk();
        let linked = disk.link(ino.0, parent.0, name).and_then(|()| {
            disk.refer(ino.0);
            Ok(attributes(ino.0, disk.inode(ino.0)?))
        });
        answer_entry(reply, linked);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.remove(parent, name, reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.remove(parent, name, reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mut disk = self.disk();
        let renamed = if flags == RenameFlags::RENAME_NOREPLACE
            && disk.find(new_parent.0, new_name).is_ok()
        {
            Err(Errno::EEXIST)
        } else if !(flags - RenameFlags::RENAME_NOREPLACE).is_empty() {
            Err(Errno::EINVAL)
        } else {
            disk.rename((parent.0, name), (new_parent.0, new_name))
        };
        answer(reply, renamed);
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.disk().file(ino.0) {
            Ok(file) => reply.data(&file.read(offset, size as usize)),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut disk = self.disk();
        if let Err(error) = disk.write(ino.0, offset, data) {
            return reply.error(error);
        }
        let flags = OFlags::from_bits_retain(flags.0 as _);
        // O_SYNC contains the bits of O_DSYNC.
        if flags.contains(OFlags::DSYNC) {
            disk.sync(ino.0, !flags.contains(OFlags::SYNC));
        }
        reply.written(data.len() as u32);
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, data: bool, reply: ReplyEmpty) {
        self.sync(ino, data, reply);
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, data: bool, reply: ReplyEmpty) {
        self.sync(ino, data, reply);
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let disk = self.disk();
        let Some(entries) = disk.inode(ino.0).ok().and_then(Inode::folder) else {
            return reply.error(Errno::ENOTDIR);
        };
        // Nothing evaluates the number of the parent.
        let dots = [".", ".."].map(|name| (ino.0, FileType::Directory, name.into()));
        let named = entries
            .iter()
            .filter_map(|(name, ino)| Some((*ino, kind(disk.inode(*ino).ok()?), name.clone())));
        let listing = dots.into_iter().chain(named).collect();
        let mut listings = self.listings();
        let handle = (1..).find(|handle| !listings.contains_key(handle)).unwrap_or_default();
        listings.insert(handle, listing);
        reply.opened(FileHandle(handle), FopenFlags::empty());
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if let Some(listing) = self.listings().get(&handle.0) {
            for (index, (ino, kind, name)) in listing.iter().enumerate().skip(offset as usize) {
                if reply.add(INodeNo(*ino), index as u64 + 1, *kind, name) {
                    break;
                }
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.listings().remove(&handle.0);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(BLOCKS, BLOCKS, BLOCKS, BLOCKS, BLOCKS, 4096, 255, 4096);
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mut disk = self.disk();
        let flags = FallocateFlags::from_bits_retain(mode as u32);
        let allocated = disk.file(ino.0).map(|file| file.size).and_then(|size| {
            let end = offset + length;
            let zeroes = flags.intersects(FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE);
            let grows = !flags.contains(FallocateFlags::KEEP_SIZE);
            let known =
                FallocateFlags::KEEP_SIZE | FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE;
            if !(flags - known).is_empty() {
                return Err(Errno::EOPNOTSUPP);
            }
            if grows && end > size {
                disk.resize(ino.0, end)?;
            }
            if zeroes && offset < size {
                disk.write(ino.0, offset, &vec![0; (end.min(size) - offset) as usize])?;
            }
            Ok(())
        });
        answer(reply, allocated);
    }
}
