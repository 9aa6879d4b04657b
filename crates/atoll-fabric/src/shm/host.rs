//! How much memory the host has left for a region.
//!
//! | limit | where it is written | of which regions |
//! |---|---|---|
//! | the file system | `statvfs` of the directory | named ones; those on a disk have no other limit |
//! | each control group around the process, version 2 | `memory.max`, `memory.current`, `inactive_file` of `memory.stat` | all |
//! | the same, version 1 | `memory.limit_in_bytes`, `memory.usage_in_bytes`, `total_inactive_file` of `memory.stat` | all |
//! | the machine | `MemAvailable` of `/proc/meminfo` | all |
//!
//! The kernel kills a process that exceeds the limit of a control group, or the machine's. So pages
//! are allocated only while [`RESERVE_BYTES`] stay free beside them. A limit that cannot be read is
//! ignored.

use crate::FabricError;
use std::ffi::CString;
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Bytes that stay free beside a region, for the processes that use it.
pub const RESERVE_BYTES: u64 = 32 << 20;

/// What limits the memory of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The file system that a directory is on.
    FileSystem(PathBuf),
    /// A control group; the file that holds its limit.
    ControlGroup(PathBuf),
    /// All memory of the machine.
    Machine,
}

/// How much memory is left, and by which limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes.
    pub bytes: u64,
    /// Of all limits the one that leaves least.
    pub limit: Limit,
}

impl fmt::Display for Room {
    /// What limits the memory, and how to change that.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes;
        match &self.limit {
            Limit::FileSystem(path) => {
                let path = path.display();
                write!(
                    f,
                    "the file system of {path} has {bytes} bytes left (`mount -o remount,size=SIZE {path}` makes it \
                     larger; of a container, --shm-size)"
                )
            }
            Limit::ControlGroup(path) => {
                write!(
                    f,
                    "the control group leaves {bytes} bytes ({} raises it; of a container, its memory option)",
                    path.display()
                )
            }
            Limit::Machine => write!(f, "the machine has {bytes} bytes left (MemAvailable in /proc/meminfo)"),
        }
    }
}

impl Room {
    /// What is left for the pages of a region of this name, or of an anonymous one.
    pub fn of_region(name: Option<&str>) -> Option<Self> {
        Self::of(directory_of(name).as_deref())
    }

    /// The same without the file system: see [`Room::of_memory`].
    pub fn of_memory_of_region(name: Option<&str>) -> Option<Self> {
        Self::of_memory(directory_of(name).as_deref())
    }

    /// What is left for the pages of an anonymous region, or of a file in `directory`. `None` if
    /// nothing that can be read limits it.
    pub fn of(directory: Option<&Path>) -> Option<Self> {
        let of_files = directory.and_then(file_system);
        of_files.into_iter().chain(Self::of_memory(directory)).min_by_key(Self::usable_bytes)
    }

    /// The same without the file system, which refuses by itself what it has no room for: beyond
    /// the other limits a process is killed.
    pub fn of_memory(directory: Option<&Path>) -> Option<Self> {
        if directory.is_some_and(|directory| !is_in_memory(directory)) {
            // The pages of a file on a disk go there when memory is short.
            return None;
        }
        let machine = machine().map(|bytes| Self { bytes, limit: Limit::Machine });
        control_groups().into_iter().chain(machine).min_by_key(Self::usable_bytes)
    }

    /// What the control groups around this process leave; `None` without a limit. Version 1 writes
    /// a group without a limit as one of nearly 2^63 bytes.
    pub fn of_control_groups() -> Option<Self> {
        let limited = control_groups().into_iter().filter(|room| room.bytes < 1 << 62);
        limited.min_by_key(Self::usable_bytes)
    }

    /// An error if the host has no room for a region of this many bytes.
    pub(super) fn check(name: &str, directory: Option<&Path>, bytes: u64) -> Result<(), FabricError> {
        match Self::of(directory) {
            Some(room) if room.usable_bytes() < bytes => {
                Err(FabricError::NoRoom { name: name.to_owned(), bytes, why: room.to_string() })
            }
            _ => Ok(()),
        }
    }

    /// Bytes that a region may have, so that [`RESERVE_BYTES`], or an eighth of a small room, stay.
    pub fn usable_bytes(&self) -> u64 {
        let reserve = match self.limit {
            // Where a file system is full, no process is killed.
            Limit::FileSystem(_) => 0,
            _ => RESERVE_BYTES.min(self.bytes / 8),
        };
        self.bytes - reserve
    }
}

/// The capacity of a pool of this name if the user gives none: `wanted`, or three quarters of what
/// the host has left, if that is less, and then why.
pub fn capacity_default(name: Option<&str>, wanted: u64) -> (u64, Option<Room>) {
    const STEP: u64 = 1 << 20;
    let Some(room) = Room::of_region(name) else { return (wanted, None) };
    let fits = room.usable_bytes() / 4 * 3 / STEP * STEP;
    if fits >= wanted { (wanted, None) } else { (fits.max(STEP), Some(room)) }
}

/// Where the file of a region of this name is.
fn directory_of(name: Option<&str>) -> Option<PathBuf> {
    let path = name.and_then(|name| super::names::path_of(name).ok());
    path.as_deref().and_then(Path::parent).map(Path::to_owned)
}

fn file_system(directory: &Path) -> Option<Room> {
    let path = CString::new(directory.as_os_str().as_bytes()).ok()?;
    // SAFETY: `statvfs` is plain old data, for which zeros are a value.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path is a string that ends in zero, and the call writes to `found` alone.
    if unsafe { libc::statvfs(path.as_ptr(), &raw mut found) } != 0 || found.f_blocks == 0 {
        // A tmpfs without a limit has no blocks.
        return None;
    }
    Some(Room { bytes: found.f_bavail * found.f_frsize, limit: Limit::FileSystem(directory.to_owned()) })
}

/// Whether files of a directory are nowhere but in memory.
fn is_in_memory(directory: &Path) -> bool {
    let Ok(path) = CString::new(directory.as_os_str().as_bytes()) else { return true };
    // SAFETY: `statfs` is plain old data, for which zeros are a value.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path is a string that ends in zero, and the call writes to `found` alone.
    let is_found = unsafe { libc::statfs(path.as_ptr(), &raw mut found) } == 0;
    const RAMFS_MAGIC: libc::c_long = 0x8584_58f6;
    !is_found || [libc::TMPFS_MAGIC, RAMFS_MAGIC].contains(&found.f_type)
}

fn machine() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// What each control group around this process leaves.
fn control_groups() -> Vec<Room> {
    let (Ok(groups), Ok(mounts)) =
        (fs::read_to_string("/proc/self/cgroup"), fs::read_to_string("/proc/self/mountinfo"))
    else {
        return Vec::new();
    };
    groups_of(&groups, &mounts).iter().flat_map(|(directory, mount, names)| left(directory, mount, names)).collect()
}

/// The names of a version's files: limit, usage, and what of the usage can be reclaimed at once.
type Names = [&'static str; 3];
const VERSION_1: Names = ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "];
const VERSION_2: Names = ["memory.max", "memory.current", "inactive_file "];

/// The directories of the process's own groups that have to do with memory, each with the mount
/// that it is under.
fn groups_of(groups: &str, mounts: &str) -> Vec<(PathBuf, PathBuf, Names)> {
    let own = |wanted: fn(&str, &str) -> bool| {
        groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            wanted(number, controllers).then_some(path)
        })
    };
    let memory = own(|_, controllers| controllers.split(',').any(|controller| controller == "memory"));
    let unified = own(|number, controllers| number == "0" && controllers.is_empty());
    let mut found = Vec::new();
    for line in mounts.lines() {
        // 36 35 98:0 /root /mount options ... - type source super-options
        let Some((before, behind)) = line.split_once(" - ") else { continue };
        let (before, behind): (Vec<&str>, Vec<&str>) = (before.split(' ').collect(), behind.split(' ').collect());
        let (Some(root), Some(mount), Some(kind)) = (before.get(3), before.get(4), behind.first()) else { continue };
        let options = behind.get(2).unwrap_or(&"");
        let (path, names) = match *kind {
            "cgroup2" => (unified, VERSION_2),
            "cgroup" if options.split(',').any(|option| option == "memory") => (memory, VERSION_1),
            _ => continue,
        };
        let Some(path) = path else { continue };
        // In a container the mount may show the group itself as its root.
        let below = path.strip_prefix(root).unwrap_or(path).trim_start_matches('/');
        let mount = PathBuf::from(mount);
        let directory = mount.join(below);
        found.push((if directory.is_dir() { directory } else { mount.clone() }, mount, names));
    }
    found
}

/// What a group and those around it leave.
fn left(directory: &Path, mount: &Path, [limit, usage, reclaimable]: &Names) -> Vec<Room> {
    let number = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let mut rooms = Vec::new();
    for group in directory.ancestors().take_while(|group| group.starts_with(mount)) {
        // Without a limit the file says `max`, or of version 1 a number beyond all memory.
        let (Some(max), Some(used)) = (number(group.join(limit)), number(group.join(usage))) else { continue };
        let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
        let free = stat.lines().find_map(|line| line.strip_prefix(reclaimable)?.trim().parse::<u64>().ok());
        let bytes = max.saturating_sub(used.saturating_sub(free.unwrap_or(0)));
        rooms.push(Room { bytes, limit: Limit::ControlGroup(group.join(limit)) });
    }
    rooms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_around_the_process_is_found_and_the_least_counts() {
        let base = std::env::temp_dir().join(format!("atoll-groups-{}", std::process::id()));
        let group = base.join("a/b");
        fs::create_dir_all(&group).unwrap();
        let write = |group: &Path, files: [(&str, &str); 3]| {
            files.iter().for_each(|(name, text)| fs::write(group.join(name), text).unwrap());
        };
        write(&group, [("memory.max", "max\n"), ("memory.current", "5\n"), ("memory.stat", "")]);
        let stat = "anon 1\ninactive_file 100\n";
        write(&base.join("a"), [("memory.max", "1000\n"), ("memory.current", "300\n"), ("memory.stat", stat)]);
        let mounts = format!("31 23 0:28 / {} rw - cgroup2 cgroup2 rw\n", base.display());
        let found = groups_of("1:cpu:/x\n0::/a/b\n", &mounts);
        assert_eq!(found, [(group.clone(), base.clone(), VERSION_2)]);
        let rooms = left(&group, &base, &VERSION_2);
        let limit = Limit::ControlGroup(base.join("a/memory.max"));
        assert_eq!(rooms, [Room { bytes: 800, limit }], "what can be reclaimed does not count as used");
        // A container whose mount shows its own group as the root.
        let mounts = format!("31 23 0:28 /docker/id {} rw - cgroup cgroup rw,memory\n", base.display());
        let found = groups_of("4:memory:/docker/id/a\n", &mounts);
        assert_eq!(found, [(base.join("a"), base.clone(), VERSION_1)]);
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn this_host_has_memory_left() {
        let room = Room::of(Some(Path::new("/dev/shm"))).unwrap();
        assert!(room.bytes > 0 && room.usable_bytes() <= room.bytes, "{room}");
    }
}
