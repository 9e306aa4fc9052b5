//! Layers applied to each other.

mod common;

use common::{fault, manifest, owners, Tar};
use platoon_layers::{Fault, OwnerManifest};

#[test]
fn test_u32_whiteouts_act_on_lower_layers_in_any_order() {
    let lower = Tar::new().dir("d", 1, 1).file("d/.low", 1, 1).file("d/low", 1, 1).file("f", 1, 1).file(".rc", 1, 1);
    type Step = fn(Tar) -> Tar;
    let steps: [Step; 5] = [
        |tar| tar.file("d/.high", 2, 2),
        |tar| tar.file("d/.wh..wh..opq", 0, 0),
        |tar| tar.file(".rc", 3, 3),
        |tar| tar.file(".wh..rc", 0, 0),
        |tar| tar.file(".wh.f", 0, 0),
    ];
    for order in permutations(steps.len()) {
        let upper = order.iter().fold(Tar::new(), |tar, &step| steps[step](tar));
        assert_eq!(owners(&[lower.clone(), upper]), "3 3 /.rc\n1 1 /d\n2 2 /d/.high\n", "{order:?}");
    }
}

fn permutations(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![vec![]];
    }
    let shorter = permutations(count - 1);
    let insert = |at: usize| move |order: &Vec<usize>| [&order[..at], &[count - 1], &order[at..]].concat();
    (0..count).flat_map(|at| shorter.iter().map(insert(at)).collect::<Vec<_>>()).collect()
}

#[test]
fn test_u35_a_whiteout_takes_one_exact_name() {
    let lower = ["etc/a", "etc/a.bak", "etc/ab", "etc/a-b", "etc/a!", "etc/A"]
        .iter()
        .fold(Tar::new(), |tar, name| tar.file(name, 1, 1));
    let lower = lower.dir("etc/b", 1, 1).file("etc/b/below", 1, 1).file("etc/b.below", 1, 1);
    let upper = Tar::new().file("etc/.wh.a", 0, 0).file("etc/.wh.b", 0, 0);
    assert_eq!(
        owners(&[lower, upper]),
        "1 1 /etc/A\n1 1 /etc/a!\n1 1 /etc/a-b\n1 1 /etc/a.bak\n1 1 /etc/ab\n1 1 /etc/b.below\n"
    );
}

#[test]
fn whiteouts_of_their_own_layer_and_of_the_first_do_nothing() {
    let tar = Tar::new().file("a", 1, 1).file(".wh.a", 0, 0).file("d/x", 1, 1).file("d/.wh..wh..opq", 0, 0);
    assert_eq!(owners(std::slice::from_ref(&tar)), "1 1 /a\n1 1 /d/x\n");
    assert_eq!(owners(&[tar.clone(), tar]), "1 1 /a\n1 1 /d/x\n");
}

#[test]
fn an_opaque_root_hides_all_but_the_root() {
    let lower = Tar::new().dir("./", 9, 9).file("a", 1, 1).dir("b", 1, 1).file("b/c", 1, 1);
    let upper = Tar::new().file("d", 2, 2).file(".wh..wh..opq", 0, 0);
    assert_eq!(owners(&[lower, upper]), "9 9 /\n2 2 /d\n");
}

#[test]
fn a_whiteout_takes_a_name_and_not_what_shares_its_inode() {
    let lower = Tar::new().file("a", 1, 1).hard("b", "a").symlink("s", "d").file("d/x", 2, 2);
    let nothing = Tar::new().file(".wh.never", 0, 0).file("nowhere/.wh.x", 0, 0).file("nowhere/.wh..wh..opq", 0, 0);
    assert_eq!(owners(&[lower.clone(), nothing]), "1 1 /a\n1 1 /b\n2 2 /d/x\n");
    assert_eq!(owners(&[lower.clone(), Tar::new().file(".wh.a", 0, 0)]), "1 1 /b\n2 2 /d/x\n");
    assert_eq!(
        owners(&[lower.clone(), Tar::new().file(".wh.s", 0, 0).file("s/y", 3, 3)]),
        "1 1 /a\n1 1 /b\n2 2 /d/x\n3 3 /s/y\n"
    );
    assert_eq!(owners(&[lower.clone(), Tar::new().file("s/.wh..wh..opq", 0, 0)]), "1 1 /a\n1 1 /b\n");
    assert_eq!(owners(&[lower, Tar::new().hard(".wh.b", "a").symlink(".wh.d", "x")]), "1 1 /a\n");
}

#[test]
fn of_members_of_one_name_the_last_counts() {
    let tar =
        Tar::new().file("f", 1, 1).dir("f", 2, 2).file("f/x", 3, 3).file("f", 4, 4).file("f", 5, 5).file("g", 6, 6);
    assert_eq!(owners(&[tar.clone().file("./g", 0, 0)]), "5 5 /f\n");
    assert_eq!(owners(&[tar.dir("f/", 0, 0).dir("/f", 7, 7)]), "7 7 /f\n6 6 /g\n");
}

#[test]
fn whiteouts_of_no_name_are_refused() {
    for name in [".wh.", ".wh..", ".wh...", "d/.wh.", "./d/.wh../"] {
        let found = fault(&Tar::new().file("ok", 1, 1).member(name, b'0', 0, 0).end());
        assert!(matches!(found, (1024, Fault::Name { reason: "is a whiteout of no name" })), "{name}: {found:?}");
    }
}

#[test]
fn what_aufs_keeps_for_itself_is_not_listed_and_its_links_keep_their_owners() {
    let tar = Tar::new()
        .file(".wh..wh.aufs", 1, 1)
        .dir(".wh..wh.plnk", 1, 1)
        .file(".wh..wh.plnk/7.8", 5, 6)
        .hard("shared", ".wh..wh.plnk/7.8")
        .hard(".wh.gone", ".wh..wh.aufs");
    let lower = Tar::new().file("gone", 1, 1);
    assert_eq!(owners(&[lower, tar]), "5 6 /shared\n");
}

#[test]
fn what_stands_in_the_place_of_a_directory_takes_what_is_below() {
    let lower = Tar::new().dir("d", 1, 1).file("d/x", 1, 1).dir("d/e", 1, 1).file("d/e/y", 1, 1).file("d.x", 1, 1);
    for typeflag in [b'0', b'2', b'3', b'4', b'6'] {
        let upper = Tar::new().link(typeflag, "d", "nowhere", 2, 2);
        assert_eq!(owners(&[lower.clone(), upper.clone()]), "2 2 /d\n1 1 /d.x\n");
        let both = Tar { bytes: [lower.bytes.clone(), upper.bytes].concat() };
        assert_eq!(owners(&[both]), "2 2 /d\n1 1 /d.x\n", "the same layer may replace its own");
    }
    let upper = Tar::new().dir("d", 0, 0).dir("d/e/", 3, 3);
    assert_eq!(owners(&[lower.clone(), upper]), "1 1 /d.x\n3 3 /d/e\n1 1 /d/e/y\n1 1 /d/x\n");
    let upper = Tar::new().dir("d.x", 4, 4).file("d.x/z", 4, 4).file("d/x", 0, 0);
    assert_eq!(owners(&[lower, upper]), "1 1 /d\n4 4 /d.x\n4 4 /d.x/z\n1 1 /d/e\n1 1 /d/e/y\n");
}

#[test]
fn a_member_below_a_file_makes_it_a_directory_of_roots() {
    let lower = Tar::new().file("f", 1, 1).file("g", 1, 1);
    assert_eq!(owners(&[lower.clone(), Tar::new().file("f/x/y", 2, 2)]), "2 2 /f/x/y\n1 1 /g\n");
    assert_eq!(owners(&[lower.clone().file("f/x", 2, 2).file("g/x", 0, 0)]), "2 2 /f/x\n");
    let around =
        Tar::new().symlink("l", "f/../d").file("l/x", 2, 2).symlink("m", "f/n").symlink("f/n", "/d").file("m/y", 0, 0);
    assert_eq!(owners(&[lower.clone(), around]), "2 2 /d/x\n1 1 /g\n");
    let whiteouts = Tar::new().file("f/.wh..wh..opq", 0, 0).file("g/x/.wh.y", 0, 0);
    assert_eq!(owners(&[lower.clone(), whiteouts.clone()]), "1 1 /f\n1 1 /g\n", "a whiteout stands for nothing itself");
    assert_eq!(owners(&[lower, whiteouts.file("g/x/z", 2, 2)]), "1 1 /f\n2 2 /g/x/z\n");
}

#[test]
fn a_hard_link_keeps_the_owner_its_target_had() {
    let lower = Tar::new().file("a", 1, 1).file("r", 0, 0).link(b'2', "s", "a", 4, 4);
    let upper = Tar::new()
        .link(b'1', "b", "./a", 9, 9)
        .file("a", 2, 2)
        .hard("c", "/a")
        .hard("d", "b")
        .link(b'1', "e", "r", 9, 9)
        .hard("t", "s")
        .hard("a", "a");
    assert_eq!(owners(&[lower, upper]), "2 2 /a\n1 1 /b\n2 2 /c\n1 1 /d\n4 4 /s\n4 4 /t\n");
}

#[test]
fn a_hard_link_below_its_target_has_the_owner_it_had() {
    assert_eq!(owners(&[Tar::new().file("a", 1, 1), Tar::new().hard("a/b", "a")]), "1 1 /a/b\n");
}

#[test]
fn a_hard_link_to_a_symbolic_link_leads_where_it_leads() {
    let tar = Tar::new().symlink("s", "there").hard("t", "s").file("t/x", 1, 1);
    assert_eq!(owners(&[tar]), "1 1 /there/x\n");
}

#[test]
fn paths_below_links_are_where_the_links_lead() {
    let lower = Tar::new()
        .symlink("bin", "usr/bin")
        .symlink("abs", "/opt")
        .symlink("usr/share/up", "../../var")
        .symlink("out", "../../../../etc")
        .symlink("chain", "bin/../abs/./deep");
    let upper = Tar::new()
        .file("bin/a", 1, 1)
        .file("abs/b", 2, 2)
        .file("usr/share/up/c", 3, 3)
        .file("out/d", 4, 4)
        .file("chain/e", 5, 5)
        .hard("f", "bin/a")
        .file("bin/.wh.gone", 0, 0);
    let middle = Tar::new().file("usr/bin/gone", 6, 6);
    let expected = "4 4 /etc/d\n1 1 /f\n2 2 /opt/b\n5 5 /usr/abs/deep/e\n1 1 /usr/bin/a\n3 3 /var/c\n";
    assert_eq!(owners(&[lower, middle, upper]), expected);
}

#[test]
fn a_link_that_is_replaced_leads_nowhere() {
    let lower = Tar::new().link(b'2', "l", "a", 1, 1).link(b'2', "m", "l", 1, 1).file("l/x", 2, 2);
    let upper = Tar::new().file("m/y", 3, 3).dir("l", 4, 4).file("l/z", 5, 5).file("m/w", 6, 6);
    assert_eq!(owners(&[lower, upper]), "2 2 /a/x\n3 3 /a/y\n4 4 /l\n6 6 /l/w\n5 5 /l/z\n1 1 /m\n");
    // A link that replaces a directory takes what was below, and leads from then on.
    let lower = Tar::new().dir("d", 1, 1).file("d/x", 1, 1).symlink("l", "d").file("l/y", 1, 1);
    let upper = Tar::new().symlink("d", "e").file("l/z", 2, 2);
    assert_eq!(owners(&[lower, upper]), "2 2 /e/z\n");
}

#[test]
fn loops_of_links_are_refused() {
    let tar = Tar::new().symlink("a", "b").symlink("b", "a").file("c", 1, 1).file("a/x", 1, 1);
    assert_eq!(fault(&tar.end()), (2048, Fault::LinkLoop { limit: 40 }));
    let itself = Tar::new().symlink("a", "./a").hard("h", "a/b");
    assert_eq!(fault(&itself.end()), (512, Fault::LinkLoop { limit: 40 }));
    let growing = Tar::new().symlink("a", "a/a").file("a/x", 1, 1);
    assert_eq!(fault(&growing.end()), (512, Fault::LinkLoop { limit: 40 }));
    let forty = (0..40).fold(Tar::new(), |tar, at| tar.symlink(&format!("l{at}"), &format!("l{}", at + 1)));
    assert_eq!(owners(&[forty.clone().file("l0/x", 1, 1)]), "1 1 /l40/x\n");
    let one_more = forty.symlink("start", "l0").file("start/x", 1, 1);
    assert!(matches!(fault(&one_more.end()).1, Fault::LinkLoop { .. }));
}

#[test]
fn what_links_cost_is_bounded() {
    let too_long = Tar::new().long(b'K', "a/".repeat(2048).as_bytes()).link(b'2', "l", "", 0, 0);
    assert_eq!(
        fault(&too_long.end()),
        (0, Fault::Target { reason: "is longer than 4095 bytes, which no system takes" })
    );
    let winding = |links: usize| {
        let target = |at: usize| "a/../".repeat(800) + &format!("l{}", at + 1);
        (0..links)
            .fold(Tar::new(), |tar, at| tar.long(b'K', target(at).as_bytes()).link(b'2', &format!("l{at}"), "", 0, 0))
    };
    // Members one after another in one directory find it once, others each by themselves.
    let run = (0..1000).fold(winding(39), |tar, at| tar.file(&format!("l0/{at}"), 1, 1));
    assert_eq!(owners(&[run]).lines().count(), 1000);
    let scattered = (0..1000).fold(winding(39), |tar, at| tar.file(&format!("l0/{at}/f"), 1, 1));
    assert_eq!(fault(&scattered.end()).1, Fault::LinkNames);
    let usual = (0..1000).fold(winding(1), |tar, at| tar.file(&format!("l0/{at}/f"), 1, 1));
    assert_eq!(fault(&usual.clone().end()).1, Fault::LinkNames);
    let usual =
        (0..100_000).fold(Tar::new().symlink("lib64", "usr/lib"), |tar, at| tar.file(&format!("lib64/{at}/f"), 0, 0));
    assert_eq!(owners(&[usual]), "");
}

#[test]
fn a_directory_behind_links_moves_where_they_do() {
    for (change, moved) in [
        (Tar::new().symlink("l/b", "/c"), "1 1 /a/1\n2 2 /a/2\n"),
        (Tar::new().symlink("m", "c"), "1 1 /a/1\n2 2 /c/2\n"),
        (Tar::new().file("l", 0, 0), "1 1 /a/1\n2 2 /l/2\n"),
    ] {
        let name = if moved.contains("/c/2") { "m" } else { "l" };
        let first = Tar::new().symlink("l", "a").symlink("m", "l").file(&format!("{name}/1"), 1, 1);
        let tar = Tar { bytes: [first.bytes, change.bytes].concat() }.file(&format!("{name}/2"), 2, 2);
        assert_eq!(owners(&[tar]), moved);
    }
    // A link that leads to the directory it is in, and is replaced from there.
    let tar = Tar::new().symlink("d/l", "../d").file("d/l/1", 1, 1).symlink("d/l/l", "/e").file("d/l/2", 2, 2);
    assert_eq!(owners(&[tar]), "1 1 /d/1\n2 2 /e/2\n");
    let tar = Tar::new().symlink("d/l", "../d").file("d/l/1", 1, 1).dir("d/l/l", 3, 3).file("d/l/2", 2, 2);
    assert_eq!(owners(&[tar]), "1 1 /d/1\n3 3 /d/l\n2 2 /d/l/2\n");
    let lower = Tar::new().symlink("d/l", "../d").file("d/l/1", 1, 1);
    let upper = Tar::new().file("d/l/2", 2, 2).file("d/l/.wh.l", 0, 0).file("d/l/3", 3, 3);
    assert_eq!(owners(&[lower, upper]), "1 1 /d/1\n2 2 /d/2\n3 3 /d/l/3\n");
}

#[test]
fn test_u41_names_are_normalised_and_never_climb() {
    let tar =
        Tar::new().symlink("link", "/outside").file("link/evil", 1, 1).file("/abs", 2, 2).file("././/x//./y", 3, 3);
    assert_eq!(owners(&[tar]), "2 2 /abs\n1 1 /outside/evil\n3 3 /x/y\n");
    for name in ["../up", "a/../b", "a/..", "..", "/..", "./../x"] {
        let found = fault(&Tar::new().file("ok", 1, 1).member(name, b'0', 1, 1).end());
        assert_eq!(found, (1024, Fault::Name { reason: "climbs with .." }), "{name}");
        let found = fault(&Tar::new().hard("h", name).end());
        assert_eq!(found, (0, Fault::Target { reason: "climbs with .." }), "{name}");
    }
    assert_eq!(
        owners(&[Tar::new().file("..a", 1, 1).file("b..", 1, 1).file("c/...", 1, 1)]),
        "1 1 /..a\n1 1 /b..\n1 1 /c/...\n"
    );
}

#[test]
fn names_that_end_in_a_dot_do_not_stand_for_their_directory() {
    let lower = Tar::new().dir("a", 3, 1);
    assert_eq!(owners(&[lower, Tar::new().dir("b/./", 2, 2).file("b/a", 0, 0)]), "3 1 /a\n2 2 /b\n");
    assert_eq!(owners(&[Tar::new().dir("b/.", 2, 2).file("b/c", 1, 1).dir("b//./", 3, 3)]), "3 3 /b\n1 1 /b/c\n");
}

#[test]
fn the_root_is_a_directory() {
    assert_eq!(owners(&[Tar::new().dir("./", 1, 2), Tar::new().file("a", 0, 0)]), "1 2 /\n");
    assert_eq!(owners(&[Tar::new().dir("/", 1, 2), Tar::new().dir(".", 0, 0)]), "");
    for typeflag in [b'0', b'1', b'2'] {
        let found = fault(&Tar::new().link(typeflag, "./.", "x", 1, 1).end());
        assert!(matches!(found, (0, Fault::Name { .. })), "{found:?}");
    }
}

#[test]
fn missing_directories_are_roots() {
    let by_name = Tar::new().member("a/b/c/", b'0', 0, 0).dir("a", 2, 2);
    assert_eq!(owners(&[Tar::new().file("a/b/c", 1, 1), by_name]), "2 2 /a\n");
    let lower = Tar::new().dir("a", 1, 1).file("a/x", 1, 1);
    let upper = Tar::new().file(".wh.a", 0, 0).file("a/y", 2, 2);
    assert_eq!(owners(&[lower, upper]), "2 2 /a/y\n");
}

#[test]
fn what_no_line_can_hold_is_counted() {
    let mut manifest = OwnerManifest::default();
    for (path, uid, gid) in [
        (&b"/a\n"[..], 0, 0),
        (b"/b\nc", 1, 0),
        (b"/b\rc", 1, 0),
        (b"/tmp/\n", 1, 0),
        (b"/y", u32::MAX, 0),
        (b"/z", 2, 0),
    ] {
        manifest.push(path, uid, gid);
    }
    assert_eq!(
        (manifest.bytes.as_slice(), manifest.count, manifest.unrepresentable),
        (&b"# platoon-owners-v1\n2 0 /z\n"[..], 1, 3)
    );
}

#[test]
fn an_image_of_roots_has_a_manifest_of_one_line() {
    assert_eq!(manifest(&[&Tar::new().file("a", 0, 0).end()]).expect("is well"), "");
    assert_eq!(manifest(&[]).expect("is well"), "");
}
