use std::path::Path;
use std::time::Instant;
fn main() {
    for path in std::env::args().skip(1) {
        let mut best = f64::MAX;
        let mut count = 0;
        for _ in 0..20 {
            let start = Instant::now();
            let file = platoon_squash::ImageFile::open(Path::new(&path)).unwrap();
            count = platoon_squash::owners(&file.source()).unwrap().len();
            best = best.min(start.elapsed().as_secs_f64());
        }
        let mut visit = f64::MAX;
        for _ in 0..40 {
            let start = Instant::now();
            let file = platoon_squash::ImageFile::open(Path::new(&path)).unwrap();
            let mut n = 0;
            platoon_squash::visit_owners(&file.source(), &Default::default(), |p, _, _| n += p.len()).unwrap();
            visit = visit.min(start.elapsed().as_secs_f64());
        }
        println!("visit {:.2} ms", visit * 1e3);
        let mut floor = f64::MAX;
        let mut sizes = None;
        for _ in 0..20 {
            let start = Instant::now();
            let file = platoon_squash::ImageFile::open(Path::new(&path)).unwrap();
            sizes = Some(platoon_squash::table_sizes(&file.source()).unwrap());
            floor = floor.min(start.elapsed().as_secs_f64());
        }
        println!("floor {:.2} ms, ratio {:.2} {sizes:?}", floor * 1e3, best / floor);
        println!("{path}: {count} owners, {:.2} ms", best * 1e3);
    }
}
