drop table if exists bench_account;
drop table if exists bench_order;
drop table if exists bench_effect;
drop table if exists bench_inbox;
drop table if exists bench_run;
