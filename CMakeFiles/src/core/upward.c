int haul_add(void);
int upward(void) { return haul_add(); }
