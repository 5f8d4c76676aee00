drop table umbra_license;
