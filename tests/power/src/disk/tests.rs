use std::collections::BTreeMap;

use super::*;

/// How a disk syncs and loses power, so that the tests can run on a disk with a planted bug.
#[derive(Clone, Copy)]
struct Disks {
    sync: fn(&mut Disk, Ino, bool),
    cut: fn(&mut Disk, Cut, &mut fastrand::Rng),
}

const RIGHT: Disks = Disks { sync: Disk::sync, cut: Disk::cut };

/// A test returns `false` if the disk is wrong.
type Test = fn(Disks) -> bool;

const TESTS: [(&str, Test); 12] = [
    ("plain_write_is_lost", plain_write_is_lost),
    ("fsync_keeps_content_size_and_name", fsync_keeps_content_size_and_name),
    ("fsync_of_one_file_keeps_no_other", fsync_of_one_file_keeps_no_other),
    ("fsync_of_a_folder_keeps_names_and_no_content", fsync_of_a_folder_keeps_names_and_no_content),
    ("rename_needs_fsync_of_the_folder", rename_needs_fsync_of_the_folder),
    ("fdatasync_commits_no_rename", fdatasync_commits_no_rename),
    ("changes_stay_in_order", changes_stay_in_order),
    ("truncation_is_a_change", truncation_is_a_change),
    ("open_file_without_name_is_readable", open_file_without_name_is_readable),
    ("hard_links_share_content", hard_links_share_content),
    ("some_cuts_leave_a_part", some_cuts_leave_a_part),
    ("overwritten_page_is_old_or_new", overwritten_page_is_old_or_new),
];

fn new_file(disk: &mut Disk, name: &str) -> Ino {
    disk.create(ROOT, name.as_ref(), (0o644, 0, 0), Body::File(File::default())).expect("new")
}

fn new_folder(disk: &mut Disk, name: &str) -> Ino {
    let folder = Body::Folder(BTreeMap::new());
    disk.create(ROOT, name.as_ref(), (0o755, 0, 0), folder).expect("new")
}

fn forget(disks: Disks, disk: &mut Disk) {
    (disks.cut)(disk, Cut::Forget, &mut fastrand::Rng::with_seed(1));
}

/// Returns the content of a file of the root.
fn content(disk: &Disk, name: &str) -> Option<Vec<u8>> {
    let ino = disk.find(ROOT, name.as_ref()).ok()?;
    Some(disk.file(ino).ok()?.read(0, usize::MAX))
}

fn plain_write_is_lost(disks: Disks) -> bool {
    let mut disk = Disk::new();
    let file = new_file(&mut disk, "a");
    disk.write(file, 0, b"old").expect("written");
    (disks.sync)(&mut disk, file, false);
    disk.write(file, 0, b"newer").expect("written");
    let seen = content(&disk, "a") == Some(b"newer".to_vec());
    forget(disks, &mut disk);
    seen && content(&disk, "a") == Some(b"old".to_vec())
}

fn fsync_keeps_content_size_and_name(disks: Disks) -> bool {
    [true, false].into_iter().all(|data| {
        let mut disk = Disk::new();
        let file = new_file(&mut disk, "a");
        disk.write(file, 5000, b"far").expect("written");
        (disks.sync)(&mut disk, file, data);
        forget(disks, &mut disk);
        let right = [vec![0; 5000], b"far".to_vec()].concat();
        content(&disk, "a") == Some(right)
    })
}

fn fsync_of_one_file_keeps_no_other(disks: Disks) -> bool {
    let mut disk = Disk::new();
    let files = ["a", "b"].map(|name| new_file(&mut disk, name));
    for file in files {
        disk.write(file, 0, b"x").expect("written");
    }
    (disks.sync)(&mut disk, files[1], false);
    forget(disks, &mut disk);
    content(&disk, "a") == Some(vec![]) && content(&disk, "b") == Some(b"x".to_vec())
}

fn fsync_of_a_folder_keeps_names_and_no_content(disks: Disks) -> bool {
    let mut disk = Disk::new();
    let file = new_file(&mut disk, "a");
    disk.write(file, 0, b"x").expect("written");
    (disks.sync)(&mut disk, ROOT, false);
    forget(disks, &mut disk);
    content(&disk, "a") == Some(vec![])
}

fn rename_needs_fsync_of_the_folder(disks: Disks) -> bool {
    [false, true].into_iter().all(|synced| {
        let mut disk = Disk::new();
        for name in ["new", "current"] {
            let file = new_file(&mut disk, name);
            disk.write(file, 0, name.as_bytes()).expect("written");
            (disks.sync)(&mut disk, file, false);
        }
        disk.rename((ROOT, "new".as_ref()), (ROOT, "current".as_ref())).expect("renamed");
        if synced {
            (disks.sync)(&mut disk, ROOT, false);
        }
        forget(disks, &mut disk);
        let found = ["new", "current"].map(|name| content(&disk, name));
        let [new, current] = ["new", "current"].map(|name| Some(name.as_bytes().to_vec()));
        found == if synced { [None, new] } else { [new, current] }
    })
}

fn fdatasync_commits_no_rename(disks: Disks) -> bool {
    [false, true].into_iter().all(|data| {
        let mut disk = Disk::new();
        let file = new_file(&mut disk, "a");
        (disks.sync)(&mut disk, file, false);
        disk.rename((ROOT, "a".as_ref()), (ROOT, "b".as_ref())).expect("renamed");
        disk.write(file, 0, b"x").expect("written");
        (disks.sync)(&mut disk, file, data);
        forget(disks, &mut disk);
        content(&disk, if data { "a" } else { "b" }) == Some(b"x".to_vec())
    })
}

fn changes_stay_in_order(disks: Disks) -> bool {
    let mut disk = Disk::new();
    let folder = new_folder(&mut disk, "folder");
    new_file(&mut disk, "before");
    let file = new_file(&mut disk, "file");
    new_file(&mut disk, "after");
    disk.rename((ROOT, "file".as_ref()), (folder, "moved".as_ref())).expect("renamed");
    (disks.sync)(&mut disk, file, true);
    forget(disks, &mut disk);
    let there = ["folder", "before", "file", "after"];
    there.map(|name| disk.find(ROOT, name.as_ref()).is_ok()) == [true, true, true, false]
}

fn truncation_is_a_change(disks: Disks) -> bool {
    [false, true].into_iter().all(|synced| {
        let mut disk = Disk::new();
        let file = new_file(&mut disk, "a");
        disk.write(file, 0, &[1; 3 * PAGE]).expect("written");
        (disks.sync)(&mut disk, file, false);
        disk.resize(file, 10).expect("shrunk");
        disk.resize(file, 20).expect("grown");
        if synced {
            (disks.sync)(&mut disk, file, true);
        }
        forget(disks, &mut disk);
        let short = [vec![1; 10], vec![0; 10]].concat();
        content(&disk, "a") == Some(if synced { short } else { vec![1; 3 * PAGE] })
    })
}

fn open_file_without_name_is_readable(disks: Disks) -> bool {
    let mut disk = Disk::new();
    let file = new_file(&mut disk, "a");
    disk.refer(file);
    disk.write(file, 0, b"x").expect("written");
    disk.unlink(ROOT, "a".as_ref()).expect("removed");
    let open = disk.file(file).is_ok_and(|file| file.read(0, 9) == b"x");
    (disks.sync)(&mut disk, file, false);
    disk.forget(file, 1);
    let gone = disk.file(file).is_err();
    forget(disks, &mut disk);
    open && gone
}

fn hard_links_share_content(disks: Disks) -> bool {
    let mut disk = Disk::new();
    let file = new_file(&mut disk, "a");
    disk.link(file, ROOT, "b".as_ref()).expect("linked");
    disk.write(file, 0, b"x").expect("written");
    disk.unlink(ROOT, "a".as_ref()).expect("removed");
    (disks.sync)(&mut disk, ROOT, false);
    (disks.sync)(&mut disk, file, false);
    forget(disks, &mut disk);
    content(&disk, "a").is_none() && content(&disk, "b") == Some(b"x".to_vec())
}

/// A cut that leaves some leaves each size between nothing and all, and never a hole.
fn some_cuts_leave_a_part(disks: Disks) -> bool {
    let mut sizes = BTreeSet::new();
    let whole = (0..100).all(|seed| {
        let mut disk = Disk::new();
        let file = new_file(&mut disk, "a");
        disk.write(file, 0, &[1; 3 * PAGE]).expect("written");
        (disks.cut)(&mut disk, Cut::Some, &mut fastrand::Rng::with_seed(seed));
        let left = content(&disk, "a");
        sizes.insert(left.as_ref().map(|left| left.len() / PAGE));
        left.is_none_or(|left| left.iter().all(|byte| *byte == 1))
    });
    whole && sizes == BTreeSet::from([None, Some(0), Some(1), Some(2), Some(3)])
}

/// Each overwritten page is left old or new, whatever happens to the others.
fn overwritten_page_is_old_or_new(disks: Disks) -> bool {
    let mut seen = BTreeSet::new();
    let whole = (0..100).all(|seed| {
        let mut disk = Disk::new();
        let file = new_file(&mut disk, "a");
        disk.write(file, 0, &[1; 2 * PAGE]).expect("written");
        (disks.sync)(&mut disk, file, true);
        disk.write(file, 0, &[2; 2 * PAGE]).expect("written");
        (disks.cut)(&mut disk, Cut::Some, &mut fastrand::Rng::with_seed(seed));
        let left = content(&disk, "a").unwrap_or_default();
        let pages: Vec<_> = left.chunks(PAGE).map(|page| page[0]).collect();
        let whole = left.chunks(PAGE).all(|page| page.iter().all(|byte| *byte == page[0]));
        seen.insert(pages);
        whole
    });
    whole && seen == BTreeSet::from([vec![1, 1], vec![1, 2], vec![2, 1], vec![2, 2]])
}

fn failing(disks: Disks) -> Vec<&'static str> {
    TESTS.iter().filter(|(_, test)| !test(disks)).map(|(name, _)| *name).collect()
}

#[test]
fn disk_forgets_what_was_not_flushed_and_nothing_else() {
    assert_eq!(failing(RIGHT), [""; 0]);
}

#[test]
fn planted_bugs_are_found() {
    let plants: [(&str, Disks); 7] = [
        ("fsync keeps nothing", Disks { sync: |_, _, _| {}, ..RIGHT }),
        ("fsync keeps everything", Disks { sync: |disk, _, _| disk.sync_all(), ..RIGHT }),
        ("fsync keeps no names", Disks { sync: |disk, ino, _| disk.flush(ino), ..RIGHT }),
        ("fsync is fdatasync", Disks { sync: |disk, ino, _| disk.sync(ino, true), ..RIGHT }),
        ("fdatasync is fsync", Disks { sync: |disk, ino, _| disk.sync(ino, false), ..RIGHT }),
        ("a cut keeps everything", Disks { cut: |_, _, _| {}, ..RIGHT }),
        ("a cut always forgets", Disks { cut: |disk, _, rng| disk.cut(Cut::Forget, rng), ..RIGHT }),
    ];
    for (plant, disks) in plants {
        assert!(!failing(disks).is_empty(), "{plant}");
    }
}
