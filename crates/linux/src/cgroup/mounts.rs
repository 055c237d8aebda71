//! The mount points of the hierarchies of control groups.

use std::fs;
use std::path::PathBuf;

/// A mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    mount: PathBuf,
    /// The group that the mount shows as its root; in a container it is not "/".
    root: String,
    /// The controller in version 1; `None` in version 2.
    controller: Option<String>,
}

impl Hierarchy {
    /// Finds version 2, at any mount point.
    pub fn v2() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/self/mountinfo").ok()?, None)
    }

    /// Finds the hierarchy of version 1 with this controller.
    pub fn v1(controller: &str) -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/self/mountinfo").ok()?, Some(controller))
    }

    /// Finds version 2's hierarchy, or that of a controller of version 1, among the lines of
    /// mountinfo: `… root mountpoint options … - fstype source superoptions`
    /// (proc_pid_mountinfo(5)).
    pub fn parse(text: &str, controller: Option<&str>) -> Option<Self> {
        text.lines().find_map(|line| {
            let (mount, filesystem) = line.split_once(" - ")?;
            let mut filesystem = filesystem.split(' ');
            let (kind, _source) = (filesystem.next()?, filesystem.next()?);
            let options = filesystem.next().unwrap_or_default();
            let right = match controller {
                None => kind == "cgroup2",
                Some(name) => kind == "cgroup" && options.split(',').any(|option| option == name),
            };
            let mut mount = mount.split(' ').skip(3);
            let (root, point) = (mount.next()?, mount.next()?);
            right.then(|| Self {
                mount: point.into(),
                root: root.to_owned(),
                controller: controller.map(str::to_owned),
            })
        })
    }

    /// Returns true for version 1.
    pub fn is_v1(&self) -> bool {
        self.controller.is_some()
    }

    /// Returns the directory of the root that the mount shows.
    pub fn root(&self) -> PathBuf {
        self.mount.clone()
    }

    /// Returns true if that is the root of the whole hierarchy, as far as this process's namespace
    /// shows it (cgroup_namespaces(7)).
    pub fn is_whole(&self) -> bool {
        self.root == "/"
    }

    /// Returns the directory of a process's group; `None` if the process has ended or the mount
    /// does not show the group.
    pub fn group_of(&self, pid: i32) -> Option<PathBuf> {
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let group = parse_group(&text, self.controller.as_deref())?;
        let below = group.strip_prefix(self.root.trim_end_matches('/')).unwrap_or(group);
        let path = self.mount.join(below.trim_start_matches('/'));
        path.is_dir().then_some(path)
    }
}

/// Returns the path in the line of /proc/PID/cgroup of version 2, or of a controller of version 1:
/// `id:controllers:path`, with no controllers for version 2 (cgroups(7)).
pub fn parse_group<'a>(text: &'a str, controller: Option<&str>) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let right = match controller {
            None => id == "0" && controllers.is_empty(),
            Some(name) => controllers.split(',').any(|other| other == name),
        };
        right.then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
        22 1 0:20 / / rw - ext4 /dev/vda rw\n\
        31 30 0:27 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n\
        32 30 0:28 /docker/1 /sys/fs/cgroup/freezer rw shared:9 - cgroup cgroup rw,freezer,pids\n\
        33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn hierarchies_are_found_by_version_and_controller() {
        let v2 = Hierarchy::parse(MOUNTS, None).expect("there");
        assert_eq!((v2.root(), v2.is_v1()), ("/sys/fs/cgroup/unified".into(), false));
        let freezer = Hierarchy::parse(MOUNTS, Some("freezer")).expect("there");
        assert_eq!((freezer.root.as_str(), freezer.is_v1()), ("/docker/1", true));
        assert_eq!(Hierarchy::parse(MOUNTS, Some("cpu")), None, "cpuset is another");
        for text in ["", " - ", "a b c - cgroup2 x", "1 2 3 / /p rw - cgroup2"] {
            assert_eq!(Hierarchy::parse(text, None), None, "{text:?}");
        }
    }

    #[test]
    fn a_group_is_found_by_version_and_controller() {
        let text = "9:name=systemd:/s\n3:cpuset:/a\n1:cpu,freezer:/user.slice/x:y\n0::/u\n";
        assert_eq!(parse_group(text, Some("freezer")), Some("/user.slice/x:y"));
        assert_eq!(parse_group(text, None), Some("/u"));
        assert_eq!(parse_group("3:cpuset:/a\n", None), None);
        for text in ["", "::", "0:", "\n"] {
            assert_eq!(parse_group(text, None), None, "{text:?}");
        }
    }
}
