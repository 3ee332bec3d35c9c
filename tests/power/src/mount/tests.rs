use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::fs::{FileExt, OpenOptionsExt},
};

use rustix::fs::{FallocateFlags, OFlags, fallocate};

use super::*;

/// Mounts an empty disk on a new folder.
fn mounted() -> Mount {
    let folder = std::env::temp_dir().join(format!("power-{:x}", fastrand::u64(..)));
    Mount::new(&folder, Disk::new()).expect("mounted: needs root and /dev/fuse")
}

fn forget(mount: &mut Mount) {
    mount.cut(Cut::Forget, &mut Rng::with_seed(1)).expect("mounted again");
}

fn end(mount: Mount) {
    let folder = mount.folder().to_owned();
    drop(mount);
    fs::remove_dir(folder).expect("unmounted");
}

#[test]
fn plain_writes_are_lost_and_synced_ones_kept() {
    let mut mount = mounted();
    let [plain, synced, direct] = ["plain", "synced", "direct"].map(|it| mount.folder().join(it));
    fs::write(&plain, "x").expect("written");
    let mut file = fs::File::create(&synced).expect("created");
    file.write_all(b"old").expect("written");
    file.sync_all().expect("synced");
    file.write_all(b" and new").expect("written");
    let flags = (OFlags::DSYNC.bits()).cast_signed();
    let options = OpenOptions::new().write(true).create_new(true).custom_flags(flags).open(&direct);
    options.expect("created").write_all(b"at once").expect("written");
    drop(file);
    assert_eq!(fs::read(&synced).expect("readable"), b"old and new");
    forget(&mut mount);
    // Its name is older than the sync of the other file.
    assert_eq!(fs::read(&plain).expect("readable"), b"");
    assert_eq!(fs::read(&synced).expect("readable"), b"old");
    assert_eq!(fs::read(&direct).expect("readable"), b"at once");
    end(mount);
}

#[test]
fn rename_is_kept_by_fsync_of_the_folder() {
    for synced in [false, true] {
        let mut mount = mounted();
        let [new, current] = ["new", "current"].map(|name| mount.folder().join(name));
        for path in [&new, &current] {
            let mut file = fs::File::create(path).expect("created");
            write!(file, "{}", path.display()).expect("written");
            file.sync_all().expect("synced");
        }
        fs::rename(&new, &current).expect("renamed");
        if synced {
            fs::File::open(mount.folder()).expect("a folder").sync_all().expect("synced");
        }
        forget(&mut mount);
        let kept = if synced { &new } else { &current };
        let right = kept.display().to_string();
        assert_eq!(fs::read_to_string(&current).expect("readable"), right);
        assert_eq!(new.exists(), !synced);
        end(mount);
    }
}

#[test]
fn files_behave_as_on_a_disk() {
    let mount = mounted();
    let folder = mount.folder().join("folder");
    fs::create_dir(&folder).expect("created");
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(folder.join("a"));
    let file = file.expect("created");
    fallocate(&file, FallocateFlags::empty(), 0, 10_000).expect("allocated");
    file.write_all_at(b"xy", 4095).expect("written");
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, punch, 4096, 4096).expect("punched");
    file.set_len(9000).expect("shrunk");
    fs::hard_link(folder.join("a"), folder.join("b")).expect("linked");
    std::os::unix::fs::symlink("b", folder.join("c")).expect("linked");
    fs::remove_file(folder.join("a")).expect("removed");
    let content = fs::read(folder.join("c")).expect("readable");
    assert_eq!((content.len(), content[4095], content[4096]), (9000, b'x', 0));
    assert!(fs::remove_dir(&folder).is_err(), "not empty");
    let mut names: Vec<_> = fs::read_dir(&folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["b", "c"]);
    drop(file);
    end(mount);
}

#[test]
fn synced_disk_can_be_copied_and_replaced() {
    let mut mount = mounted();
    let path = mount.folder().join("a");
    fs::write(&path, "x").expect("written");
    mount.sync_all().expect("synced");
    let copy = mount.copy();
    fs::write(&path, "y").expect("written");
    mount.sync_all().expect("synced");
    assert_eq!(fs::read(&path).expect("readable"), b"y");
    mount.replace(copy).expect("replaced");
    assert_eq!(fs::read(&path).expect("readable"), b"x");
    end(mount);
}
